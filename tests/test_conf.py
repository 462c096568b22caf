"""Settings: one dict, typed, frozen; what nothing reads and what cannot work is refused."""

from __future__ import annotations

import ast
import dataclasses
import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import override_settings

from ultimate_jobs import conf
from ultimate_jobs.errors import SettingInvalid, SettingUnknown
from ultimate_jobs.models.event import RETENTION_FLOOR

COUNTS = [
    "PROCESSES",
    "THREADS",
    "CLAIM_BATCH",
    "MAX_PAYLOAD_BYTES",
    "MAX_RESULT_BYTES",
    "MAX_LOST_LEASES",
]
DURATIONS = [
    "LEASE_TTL",
    "HEARTBEAT",
    "POLL",
    "RESCUE_INTERVAL",
    "ACK_INTERVAL",
    "PREFETCH",
    "GRACE",
]
TEXTS = ["DRIVER", "DATABASE", "DEFAULT_QUEUE", "APP_VERSION"]


def given(**keys: Any) -> override_settings:
    return override_settings(ULTIMATE_JOBS=keys)


def test_settings_without_a_dict_are_the_defaults() -> None:
    """A project that sets nothing gets the documented figures."""
    found = conf.settings()

    assert (found.driver, found.database, found.default_queue) == ("postgres", "default", "default")
    assert (found.lease_ttl_ms, found.heartbeat_ms) == (30_000, 5_000)
    assert (found.max_payload_bytes, found.max_result_bytes) == (1_048_576, 1_048_576)


def test_settings_are_frozen() -> None:
    """No code changes a setting behind the back of another."""
    found = conf.settings()

    with pytest.raises(dataclasses.FrozenInstanceError):
        found.threads = 9  # type: ignore[misc]


def test_known_keys_are_upper_case_and_durations_name_no_unit() -> None:
    """A key is the attribute in upper case; a duration takes seconds or a timedelta."""
    known = conf.known_keys()

    assert known == sorted(known)
    assert all(key.isupper() and not key.endswith("_MS") for key in known)
    assert {*COUNTS, *DURATIONS, *TEXTS} <= set(known)


def test_settings_follow_an_override_and_its_end() -> None:
    """What a test overrides is seen at once, and gone afterwards."""
    with given(THREADS=3):
        inside = conf.settings().threads

    assert inside == 3
    assert conf.settings().threads == 8


def test_settings_of_nested_overrides_end_in_order() -> None:
    """The inner override covers the outer one only while it lasts."""
    with given(THREADS=3):
        with given(CLAIM_BATCH=7):
            inner = conf.settings()
        outer = conf.settings()

    assert (inner.threads, inner.claim_batch) == (8, 7)
    assert (outer.threads, outer.claim_batch) == (3, 500)


def test_settings_are_read_once_between_two_changes() -> None:
    """Reading a setting costs nothing, so that hot paths may ask."""
    assert conf.settings() is conf.settings()


@pytest.mark.parametrize("key", COUNTS)
def test_count_is_taken_as_given(key: str) -> None:
    """A whole number above 0 is the value itself."""
    with given(**{key: 1}):
        assert getattr(conf.settings(), key.lower()) == 1


@pytest.mark.parametrize("key", COUNTS)
@pytest.mark.parametrize("value", [0, -1, True, False, 1.0, "8", None, Decimal(8)])
def test_count_that_is_no_positive_whole_number_is_refused(key: str, value: object) -> None:
    """A zero is refused in words and never read as "not set"."""
    with given(**{key: value}), pytest.raises(SettingInvalid) as caught:
        conf.settings()

    assert f'"{key}"' in caught.value.cause


@pytest.mark.parametrize("key", DURATIONS)
@pytest.mark.parametrize("value", [10, 10.0, timedelta(seconds=10)])
def test_duration_takes_seconds_or_a_timedelta(key: str, value: object) -> None:
    """Both spellings of ten seconds are ten seconds."""
    with (
        given(LEASE_TTL=60) if key == "HEARTBEAT" else given(),
        given(**({"LEASE_TTL": 60} if key == "HEARTBEAT" else {}), **{key: value}),
    ):
        assert getattr(conf.settings(), f"{key.lower()}_ms") == 10_000


@pytest.mark.parametrize("key", DURATIONS)
@pytest.mark.parametrize(
    "value",
    [0, 0.0, -1, 0.0001, timedelta(0), True, "30", None, float("nan"), float("inf"), 10**400],
    ids=lambda value: str(value)[:12],
)
def test_duration_that_is_none_is_refused(key: str, value: object) -> None:
    """Zero, NaN, infinity, text and a century are refused, and named."""
    with given(**{key: value}), pytest.raises(SettingInvalid) as caught:
        conf.settings()

    assert f'"{key}"' in caught.value.cause


@pytest.mark.parametrize("key", TEXTS)
@pytest.mark.parametrize("value", [None, 1, b"x", ["postgres"]])
def test_text_that_is_none_is_refused(key: str, value: object) -> None:
    """A setting that is text takes nothing else."""
    with given(**{key: value}), pytest.raises(SettingInvalid) as caught:
        conf.settings()

    assert f'"{key}" is {type(value).__name__}' in caught.value.cause.replace("]", "")


def test_database_that_is_not_configured_is_refused() -> None:
    """A misspelt alias is said at the first read, not at the first query of a worker."""
    with given(DATABASE="defualt"), pytest.raises(SettingInvalid) as caught:
        conf.settings()

    assert "DATABASE" in caught.value.cause
    assert "defualt" in caught.value.cause


@pytest.mark.parametrize(
    ("key", "nearest"),
    [("THREDS", "THREADS"), ("threads", "THREADS"), ("LEASE_TTL_MS", "LEASE_TTL")],
)
def test_unknown_key_is_refused_with_the_nearest_known_one(key: str, nearest: str) -> None:
    """A typing slip is not silently ignored, and its fix is the key that was meant."""
    with given(**{key: 1}), pytest.raises(SettingUnknown) as caught:
        conf.settings()

    assert caught.value.fix == f'rename the key to "{nearest}"'
    assert key in caught.value.cause


def test_unknown_key_like_nothing_is_to_be_removed() -> None:
    """Where no known key is near, none is guessed."""
    with given(QQQQ=1), pytest.raises(SettingUnknown) as caught:
        conf.settings()

    assert caught.value.fix == 'remove "QQQQ"'
    assert "THREADS" in caught.value.cause


def test_key_that_is_no_text_is_refused() -> None:
    """Whatever stands as a key, the refusal is ours."""
    with override_settings(ULTIMATE_JOBS={1: 2}), pytest.raises(SettingUnknown):
        conf.settings()


@pytest.mark.parametrize("value", [None, [], "postgres", 7])
def test_settings_that_are_no_dict_are_refused(value: object) -> None:
    """The setting is one dict, and anything else is said so."""
    with override_settings(ULTIMATE_JOBS=value), pytest.raises(SettingInvalid) as caught:
        conf.settings()

    assert "not a dict" in caught.value.cause


def test_heartbeat_over_half_of_the_lease_is_refused() -> None:
    """Two renewals must fit into one lease, or one slow heartbeat loses every job."""
    with given(LEASE_TTL=10, HEARTBEAT=5.001), pytest.raises(SettingInvalid) as caught:
        conf.settings()

    assert "HEARTBEAT" in caught.value.cause
    assert "5001 ms" in caught.value.cause


def test_heartbeat_of_exactly_half_the_lease_is_taken() -> None:
    """The bound itself is allowed."""
    with given(LEASE_TTL=10, HEARTBEAT=5):
        assert conf.settings().heartbeat_ms == 5_000


@pytest.mark.parametrize("key", [*COUNTS, *DURATIONS, *TEXTS])
def test_fix_of_a_refused_setting_is_its_default(key: str) -> None:
    """The line to write loads, and changes nothing but what was wrong."""
    with given(**{key: object()}), pytest.raises(SettingInvalid) as caught:
        conf.settings()

    written = re.search(r"ULTIMATE_JOBS = (\{.*\}) in", caught.value.fix)
    assert written is not None
    with override_settings(ULTIMATE_JOBS=ast.literal_eval(written[1])):
        assert conf.settings() == conf.Settings()


def test_refused_settings_stay_refused_until_they_change() -> None:
    """A failed read is not cached as a good one, nor does it stick."""
    with given(THREADS=0):
        for _ in range(2):
            with pytest.raises(SettingInvalid):
                conf.settings()

    assert conf.settings().threads == 8


@pytest.mark.parametrize("value", ["", "a\x00", "x" * 128])
def test_default_queue_that_no_job_could_be_in_is_refused_by_the_setting(value: str) -> None:
    """The setting is blamed, not the first job that is declared without a queue."""
    with given(DEFAULT_QUEUE=value), pytest.raises(SettingInvalid) as caught:
        conf.settings()

    assert '"DEFAULT_QUEUE"' in caught.value.cause


@pytest.mark.parametrize(
    ("key", "value"), [("THREADS", 257), ("CLAIM_BATCH", 1001), ("PROCESSES", 65)]
)
def test_count_that_no_process_can_bear_is_refused(key: str, value: int) -> None:
    """A hundred thousand threads would hang the worker instead of speeding it up."""
    with given(**{key: value}), pytest.raises(SettingInvalid) as caught:
        conf.settings()

    assert str(value - 1) in caught.value.cause


# --- retention -------------------------------------------------------------------------------

DAY = timedelta(days=1)


def test_retention_without_a_setting_keeps_two_weeks_and_a_quarter() -> None:
    """What failed for good is kept longer than what went well."""
    found = conf.settings().retention

    assert found.completed_ms == found.cancelled_ms == 14 * conf.DAY_MS
    assert found.dead_ms == 90 * conf.DAY_MS


def test_retention_of_one_state_leaves_the_others_as_they_are() -> None:
    """A duration in either spelling, or None for ever."""
    with given(RETENTION={"completed": 3 * DAY, "dead": None}):
        assert conf.settings().retention == conf.RetentionOptions(
            completed_ms=3 * conf.DAY_MS, cancelled_ms=14 * conf.DAY_MS, dead_ms=None
        )
    with given(RETENTION={"cancelled": 86_400}):
        assert conf.settings().retention.cancelled_ms == conf.DAY_MS
    with given(RETENTION={}):
        assert conf.settings().retention == conf.RetentionOptions()


@pytest.mark.parametrize(
    "value",
    [0, -1, 86_399, DAY - timedelta(seconds=1), 86_400 * 36_501, True, "14", [], float("nan")],
    ids=str,
)
def test_retention_of_no_length_that_works_is_refused(value: object) -> None:
    """Under a day the database refuses to delete the history; the cause names the state."""
    with given(RETENTION={"dead": value}), pytest.raises(SettingInvalid) as caught:
        conf.settings()

    assert '"RETENTION"' in caught.value.cause
    assert "'dead'" in caught.value.cause
    assert caught.value.fix == 'set ULTIMATE_JOBS = {"RETENTION": {"dead": 86400}} in the settings'


@pytest.mark.parametrize(
    "state", ["running", "ready", "Completed", "", None, 5, ("dead",)], ids=str
)
def test_retention_of_what_never_ends_is_refused(state: object) -> None:
    """Only final states are kept for a time, and a misspelt one is none."""
    with given(RETENTION={state: DAY}), pytest.raises(SettingInvalid) as caught:
        conf.settings()

    assert "completed, cancelled, dead" in caught.value.cause


@pytest.mark.parametrize("value", [14, DAY, None, "14", ["completed"]], ids=str)
def test_retention_that_is_no_dict_is_refused(value: object) -> None:
    """One period for all would remove the dead as soon as the rest."""
    with given(RETENTION=value), pytest.raises(SettingInvalid) as caught:
        conf.settings()

    assert "dict of states" in caught.value.cause


def test_retention_has_the_floor_that_the_database_holds() -> None:
    """The trigger refuses what is younger, so the setting must not promise it."""
    assert RETENTION_FLOOR == "1 day"
    assert conf.RETENTION_FLOOR_MS == conf.DAY_MS == 86_400_000


# --- listen ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", [True, False, None, "host=db port=5432", "postgresql://user@db/jobs"]
)
def test_listen_takes_yes_no_and_an_address(value: object) -> None:
    """Nothing else says where to listen."""
    with given(LISTEN=value):
        assert conf.settings().listen == value


@pytest.mark.parametrize("value", [1, 0, "", "s3cret", "db:5432", "host=\x00s3cret", ["host=db"]])
def test_listen_that_is_no_address_is_refused_without_showing_it(value: object) -> None:
    """It may hold a password."""
    with given(LISTEN=value), pytest.raises(SettingInvalid) as caught:
        conf.settings()

    assert '"LISTEN"' in caught.value.cause
    assert "s3cret" not in str(caught.value)
    assert caught.value.fix == 'set ULTIMATE_JOBS = {"LISTEN": True} in the settings'


def test_queues_are_read_with_their_defaults() -> None:
    """What is not said of a queue is what holds for all."""
    with given(QUEUES={"billing": {"concurrency": 5}, "mail": {"max_depth": 9}}):
        found = conf.settings()

    assert found.queue("billing") == conf.QueueOptions(concurrency=5)
    assert found.queue("mail") == conf.QueueOptions(max_depth=9)
    assert found.queue("other") == conf.QueueOptions()


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (None, "NoneType"),
        ([], "list"),
        ({1: {}}, "1"),
        ({"": {}}, "empty"),
        ({"a,b": {}}, "comma"),
        ({" billing": {}}, "white space"),
        ({"billing": 5}, "'billing' is int"),
        ({"billing": {"concurency": 5}}, "'concurency' is read by nothing"),
        ({"billing": {"concurrency": 0}}, "'concurrency' is not a whole number from 1 to 10000"),
        ({"billing": {"concurrency": 10_001}}, "'concurrency'"),
        ({"billing": {"concurrency": True}}, "'concurrency'"),
    ],
)
def test_queues_that_cannot_work_are_refused_at_their_place(value: object, place: str) -> None:
    """The queue and the option are named, and the fix loads."""
    with given(QUEUES=value), pytest.raises(SettingInvalid) as caught:
        conf.settings()

    assert place in caught.value.cause
    written = re.search(r"ULTIMATE_JOBS = (\{.*\}) in", caught.value.fix)
    assert written is not None
    with override_settings(ULTIMATE_JOBS=ast.literal_eval(written[1])):
        assert conf.settings().queue("billing").concurrency == 5


@pytest.mark.parametrize(
    ("said", "place", "fixed"),
    [
        ({"max_depth": "9"}, "'max_depth' is not", {"max_depth": 10_000}),
        ({"Max_Deph": 9}, "'Max_Deph' is read by nothing", {"max_depth": 10_000}),
        (
            {"when_full": "drop", "max_depth": 9},
            "'when_full' is none of refuse, delay",
            {"max_depth": 10_000, "when_full": "delay"},
        ),
        (
            {"when_full": "delay"},
            "'when_full' without max_depth",
            {"max_depth": 10_000, "when_full": "delay"},
        ),
    ],
)
def test_queue_that_cannot_work_is_fixed_by_its_own_name_and_the_nearest_option(
    said: object, place: str, fixed: object
) -> None:
    """What is proposed is what was meant, and it loads."""
    with given(QUEUES={"über": said}), pytest.raises(SettingInvalid) as caught:
        conf.settings()

    assert f"of queue 'über', {place}" in caught.value.cause
    written = re.search(r"ULTIMATE_JOBS = (\{.*\}) in", caught.value.fix)
    assert written is not None
    assert ast.literal_eval(written[1]) == {"QUEUES": {"über": fixed}}
    with override_settings(ULTIMATE_JOBS=ast.literal_eval(written[1])):
        assert conf.settings().queue("über").max_depth in (None, 10_000)


@pytest.mark.parametrize("value", [0, 1, "yes", None])
def test_flag_that_is_no_truth_value_is_refused(value: object) -> None:
    """A "no" in quotes is not read as yes."""
    with given(CLAIM_AVOIDANCE=value), pytest.raises(SettingInvalid) as caught:
        conf.settings()

    assert caught.value.fix == 'set ULTIMATE_JOBS = {"CLAIM_AVOIDANCE": True} in the settings'
