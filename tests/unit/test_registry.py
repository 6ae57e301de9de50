from __future__ import annotations

import sys

import pytest

from slowstep.errors import DiscoveryError
from slowstep.registry import discover, discover_of


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Makes a package `plugged` out of file contents by file name."""

    def make(**files):
        folder = tmp_path / "plugged"
        folder.mkdir()
        (folder / "__init__.py").write_text("")
        for name, text in files.items():
            (folder / f"{name}.py").write_text(text)
        return "plugged"

    monkeypatch.syspath_prepend(str(tmp_path))
    yield make
    for name in [name for name in sys.modules if name.split(".")[0] == "plugged"]:
        del sys.modules[name]


NAMED = "class RULE:\n    name = {!r}\n"


def test_an_empty_package_has_no_plug_ins(package):
    assert discover(package(), "RULE") == {}


def test_plug_ins_are_found_by_their_own_names_and_sorted(package):
    found = discover(package(one=NAMED.format("z-rule"), two=NAMED.format("a-rule")), "RULE")

    assert list(found) == ["a-rule", "z-rule"]


def test_a_plug_in_without_a_name_has_its_files(package):
    assert discover(package(one="RULE = 1"), "RULE") == {"one": 1}


def test_a_file_with_an_underscore_is_no_plug_in(package):
    assert discover(package(_shared="", one="RULE = 1"), "RULE") == {"one": 1}


@pytest.mark.parametrize("text", ["import no_such_module", "def", "1 / 0"])
def test_a_broken_file_is_a_loud_error_that_names_it(package, text):
    with pytest.raises(DiscoveryError, match=r"plugged/broken\.py cannot be imported"):
        discover(package(broken=text, one="RULE = 1"), "RULE")


def test_a_file_without_the_attribute_is_a_loud_error_that_names_it(package):
    with pytest.raises(DiscoveryError, match=r"plugged/other\.py has no RULE"):
        discover(package(other="HOOK = 1"), "RULE")


def test_two_plug_ins_of_one_name_are_a_loud_error_that_names_both(package):
    with pytest.raises(DiscoveryError, match=r"two\.py and .*one\.py both define RULE 'same'"):
        discover(package(one=NAMED.format("same"), two=NAMED.format("same")), "RULE")


def test_a_plug_in_of_another_class_is_a_loud_error(package):
    assert discover_of(int, package(one="RULE = 1", two="RULE = True"), "RULE") == {"one": 1, "two": True}
    with pytest.raises(DiscoveryError, match=r"The RULE of .*one\.py is a int\. Make it a str"):
        discover_of(str, "plugged", "RULE")


def test_files_are_looked_for_once(package, monkeypatch):
    name = package(one="RULE = 1")
    discover(name, "RULE")

    monkeypatch.setattr("pkgutil.iter_modules", lambda *_: pytest.fail("looked for again"))

    assert discover(name, "RULE") == {"one": 1}


def test_a_broken_module_is_an_error_each_time(package):
    name = package(one="RULE = ")

    for _ in range(2):
        with pytest.raises(DiscoveryError, match="cannot be imported"):
            discover(name, "RULE")
