from __future__ import annotations

import sys

import pytest

from slowstep.errors import DiscoveryError
from slowstep.registry import discover, discover_whole, find_by_file, find_by_folder, names_by_file, names_by_folder


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


def test_a_plug_in_that_is_called_as_its_file_may_have_hyphens_and_is_found_without_the_others(package):
    name = package(slow_thing=NAMED.format("slow-thing"), broken="1 / 0")

    assert find_by_file(name, "slow-thing", "RULE", type).name == "slow-thing"
    assert find_by_file(name, "slow_thing", "RULE", type) is None
    assert find_by_file(name, "no-thing", "RULE", type) is None
    assert names_by_file(name) == {"slow-thing", "broken"}


def test_a_plug_in_that_is_not_called_as_its_file_is_refused_where_it_has_to_be(package):
    with pytest.raises(DiscoveryError, match=r"plugged/slow_thing\.py: RULE is called 'fast'"):
        find_by_file(package(slow_thing=NAMED.format("fast")), "slow-thing", "RULE", type)


def test_a_file_without_the_attribute_is_a_loud_error_that_names_it(package):
    with pytest.raises(DiscoveryError, match=r"plugged/other\.py has no RULE"):
        discover(package(other="HOOK = 1"), "RULE")


def test_two_plug_ins_of_one_name_are_a_loud_error_that_names_both(package):
    with pytest.raises(DiscoveryError, match=r"two\.py and .*one\.py both define RULE 'same'"):
        discover(package(one=NAMED.format("same"), two=NAMED.format("same")), "RULE")


def test_several_plug_ins_of_one_file_are_found_each_by_its_own_name(package):
    found = discover(package(both=f"{NAMED.format('b')}B = RULE\n{NAMED.format('a')}RULES = (RULE, B)\ndel RULE\n"), "RULE")

    assert list(found) == ["a", "b"]


@pytest.mark.parametrize("text", ["RULE = 1", "RULES = ('a', 1)"])
def test_a_plug_in_of_the_wrong_kind_is_a_loud_error_that_names_the_file(package, text):
    with pytest.raises(DiscoveryError, match=r"plugged/other\.py: RULE is a int, not a str"):
        discover(package(other=text), "RULE", str)


@pytest.fixture
def sub_packages(package, tmp_path):
    """A package with sub-packages that have plug-ins in folders, and one in another folder."""
    name = package()
    (tmp_path / "plugged" / "stray.py").touch()
    for path in ("torch/inside/one", "keras/inside/two", "keras/inside/_shared", "words/outside/three"):
        file = tmp_path / "plugged" / f"{path}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        for folder in (file.parent, file.parent.parent):
            (folder / "__init__.py").touch()
        file.write_text(f"HOOK = {file.stem!r}" if not file.stem.startswith("_") else "")
    return name


def test_plug_ins_are_found_in_the_folder_of_that_name_of_each_sub_package(sub_packages):
    assert discover_whole(sub_packages, "HOOK", str, in_each="inside") == ({"one": "one", "two": "two"}, {})
    assert names_by_folder(sub_packages, "inside") == {"one", "two"}


@pytest.mark.parametrize("broken", ["torch/__init__.py", "torch/inside/__init__.py", "torch/inside/one.py"])
def test_what_is_broken_in_one_sub_package_costs_no_other(sub_packages, tmp_path, broken):
    (tmp_path / "plugged" / broken).write_text("1 / 0")

    found, errors = discover_whole(sub_packages, "HOOK", str, in_each="inside")

    assert found == {"two": "two"}
    [(name, error)] = errors.items()
    assert name == ("torch.inside.one" if broken.endswith("one.py") else "torch.inside")
    assert f"plugged/{broken} cannot be imported: ZeroDivisionError" in str(error)


@pytest.mark.parametrize("broken", ["keras/__init__.py", "keras/inside/__init__.py", "keras/inside/levers/__init__.py"])
def test_a_broken_folder_costs_what_it_has_files_of_and_no_other(sub_packages, tmp_path, broken):
    for owner, name in (("torch", "one"), ("keras", "two")):
        file = tmp_path / "plugged" / owner / "inside" / "levers" / f"{name}.py"
        file.parent.mkdir()
        (file.parent / "__init__.py").touch()
        file.write_text(f"LEVER = {name!r}")
    (tmp_path / "plugged" / broken).write_text("1 / 0")
    asked = (sub_packages, "inside.levers")

    assert names_by_folder(*asked) == {"one", "two"}
    assert list(find_by_folder(*asked, "one", "LEVER", str)) == ["torch"]
    with pytest.raises(DiscoveryError, match=rf"plugged/{broken} cannot be imported: ZeroDivisionError"):
        find_by_folder(*asked, "two", "LEVER", str)


@pytest.mark.parametrize("broken", ["keras/__init__.py", "keras/inside/__init__.py", "keras/inside/two.py"])
def test_a_module_that_is_asked_of_each_sub_package_is_a_loud_error_where_its_folder_is_broken(sub_packages, tmp_path, broken):
    (tmp_path / "plugged" / broken).write_text("1 / 0")

    assert discover(sub_packages, "HOOK", inside="inside.one") == {"one": "one"}
    assert discover(sub_packages, "HOOK", inside="nowhere.one") == {}
    with pytest.raises(DiscoveryError, match=rf"plugged/{broken} cannot be imported: ZeroDivisionError"):
        discover(sub_packages, "HOOK", inside="inside.two")


def test_a_broken_file_is_named_beside_those_that_are_of_use(package):
    name = package(broken="1 / 0", one=NAMED.format("same"), other="HOOK = 1", two=NAMED.format("same"))

    found, broken = discover_whole(name, "RULE", type)

    assert list(found) == ["same"]
    assert broken.keys() == {"broken", "other", "two"}
    assert "broken.py cannot be imported: ZeroDivisionError" in str(broken["broken"])


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


@pytest.fixture
def sorted_into_folders(package, tmp_path):
    """A package whose plug-ins are sorted into folders."""
    name = package(_shared="1 / 0")
    for path in ("one/thing", "two/other", "two/_shared"):
        file = tmp_path / "plugged" / f"{path}.py"
        file.parent.mkdir(exist_ok=True)
        (file.parent / "__init__.py").touch()
        file.write_text("1 / 0" if file.stem.startswith("_") else f"RULE = {path!r}")
    return name


def test_plug_ins_that_are_sorted_into_folders_are_found_in_each_folder(sorted_into_folders):
    assert discover(sorted_into_folders, "RULE", in_folders=True) == {"other": "two/other", "thing": "one/thing"}


def test_a_plug_in_beside_the_folders_is_a_loud_error_that_names_it_and_them(sorted_into_folders, tmp_path):
    (tmp_path / "plugged" / "beside.py").write_text("RULE = 1")

    with pytest.raises(DiscoveryError, match=r"plugged/beside\.py lies next to the folders .* one, two,"):
        discover(sorted_into_folders, "RULE", in_folders=True)
