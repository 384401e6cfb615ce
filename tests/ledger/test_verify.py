from __future__ import annotations

from collections.abc import Iterator

from clew.ledger import AtomIndex
from clew.ledger.verify import UNVERIFIED_MARK, VerificationSource, VerifiedText, verify, without_unverified
from clew.testing import assistant, call, user


def check(text: str, *source: str, last: int = 50) -> VerifiedText:
    return verify(text, VerificationSource(AtomIndex(), source, last))


def test_a_path_that_the_source_does_not_show_is_marked_and_reported() -> None:
    verified = check("changed src/ghost.py and src/real.py", "cat src/real.py")
    assert verified.text == f"changed src/ghost.py{UNVERIFIED_MARK} and src/real.py"
    assert verified.unverified == ("src/ghost.py",)


def test_numbers_hashes_and_names_are_checked_too() -> None:
    verified = check("port 8443, 16 passed at 9f3c2ab in parse_row", "port 8080, 14 passed at 1111111 in parse_line")
    assert verified.unverified == ("8443", "16", "9f3c2ab", "parse_row")


def test_a_number_may_be_written_with_other_separators_than_in_the_source() -> None:
    assert not check("5,242,880 bytes, 3000 lines", "CHUNK = 5_242_880 and 3,000 lines").unverified


def test_a_number_inside_a_longer_one_does_not_count() -> None:
    assert check("exit 12", "id 5123").unverified == ("12",)


def test_a_name_inside_a_longer_one_does_not_count() -> None:
    assert check("calls get_user", "def get_user_by_id():").unverified == ("get_user",)


def test_a_name_after_an_escaped_line_end_counts() -> None:
    assert not check("calls get_user", '{"new": "x = 1\\nget_user()"}').unverified


def test_the_start_of_a_long_hash_is_verified_by_the_whole() -> None:
    assert not check("at 9f3c2ab", "commit 9f3c2ab4d5e6f7a8b9c0d1e2f3a4b5c6d7e8f9a0").unverified


def test_chinese_around_a_path_does_not_hide_it() -> None:
    verified = check("修改了src/app.py文件，端口8443，见src/ghost.py。", "open src/app.py on 8443")
    assert verified.unverified == ("src/ghost.py",)
    assert verified.text == f"修改了src/app.py文件，端口8443，见src/ghost.py{UNVERIFIED_MARK}。"


def test_two_words_with_a_slash_are_a_path_only_where_the_source_knows_the_folder() -> None:
    assert not check("start/stop and/or retry", "nothing of that").unverified
    assert check("see src/ghost", "ls src/ shows main").unverified == ("src/ghost",)


def test_a_reference_to_a_message_that_does_not_exist_is_marked() -> None:
    verified = check("as said (m49, m50)", "said", last=50)
    assert verified.unverified == ("m50",)


def test_a_machine_type_is_no_reference() -> None:
    assert not check("an m99.large box", "an m99.large box").unverified


def test_placeholders_of_secrets_and_names_that_everybody_knows_are_not_checked() -> None:
    assert not check("token [REDACTED:aws_access_key_4711] on GitHub", "token").unverified


def test_marks_of_an_earlier_check_are_looked_at_again() -> None:
    assert check(f"now in src/new.py{UNVERIFIED_MARK}", "wrote src/new.py").text == "now in src/new.py"


def test_a_marked_claim_does_not_verify_itself_later() -> None:
    assert without_unverified(f"saw `src/ghost.py{UNVERIFIED_MARK}` and src/real.py") == "saw `` and src/real.py"


def test_what_the_index_knows_is_not_searched_for() -> None:
    index = AtomIndex()
    index.add(assistant(None, [call("read_file", {"path": "src/app.py"})]), 0)
    index.add(user("port 8443"), 1)

    unread = iter(["src/other.py"])
    assert not verify("src/app.py on 8443", VerificationSource(index, unread, 2)).unverified
    assert list(unread) == ["src/other.py"]


def test_the_source_is_read_no_further_than_needed() -> None:
    read = []

    def texts() -> Iterator[str]:
        for text in ("nothing", "src/app.py", "more"):
            read.append(text)
            yield text

    verify("src/app.py", VerificationSource(AtomIndex(), texts(), 1))
    assert read == ["nothing", "src/app.py"]
