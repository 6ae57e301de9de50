"""Begins to record in this process: called in every process of a command that may train, so it loads nothing before it has to."""

from __future__ import annotations

from slowstep.record import active, imports


def activate(just_imported: str | None = None, import_began_ns: int | None = None) -> None:
    """Start recording in this process when it was started by `slowstep run`; does nothing otherwise. Where that was done in the midst of
    the import of another one, its hooks are installed now.

    `just_imported` names a module that is complete although Python does not say so yet; `import_began_ns` is when its import began.
    """
    if active.recorders:
        if just_imported is not None:
            imports.imported(just_imported)
        return
    try:
        from slowstep.record.injection.install_hooks import activated

        recorder = activated(just_imported, import_began_ns)
    except Exception:
        # The training goes on; that nothing was recorded is said by the launcher.
        return
    if recorder is not None:
        active.recorders.append(recorder)
