"""The commands `ergodic targets` and `ergodic methods`."""

from commands_ergodic import run


def test_targets_and_methods_list_what_is_there(capsys):
    code, out, _ = run(capsys, "targets")
    assert code == 0 and "dual-moon" in out and "3.3863" in out
    code, out, _ = run(capsys, "methods")
    assert code == 0 and "HEI" in out and "leapfrogs = 5" in out
