"""Messages as bytes: whatever is no message is refused, and each kind of damage is named."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_messages import ALL, SAMPLES, full, quick, take

from lanekit import LanekitError, MalformedMessage
from lanekit.command import Bytes
from lanekit.command import flatbuffer as fb
from lanekit.command import messages as m
from lanekit.command.envelope import BadPayload, pack, unpack


@given(st.binary(max_size=200))
@quick
def test_random_bytes_are_refused(data: bytes) -> None:
    assert take(data) is None
    assert take(data[:4] + b"LKC1" + data[4:]) is None or len(data) > 8


@pytest.mark.parametrize("sample", SAMPLES, ids=[k.__name__ for k in ALL])
def test_a_message_cut_short_anywhere_is_refused_or_still_whole(sample: bytes) -> None:
    whole = unpack(sample)
    for size in range(len(sample)):
        found = take(sample[:size])
        # Bytes at the end may be padding, and nothing else may be missing.
        assert found is None or (found == whole and not any(sample[size:]))


@given(st.sampled_from(SAMPLES), st.data())
@quick
def test_flipped_bytes_are_refused_or_read_within_the_message(
    sample: bytes, data: st.DataObject
) -> None:
    changed = bytearray(sample)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(sample) - 1))] = data.draw(st.integers(0, 255))
    take(bytes(changed))


def test_every_word_of_a_message_may_be_anything() -> None:
    numbers = random.Random(20)
    words = [
        0,
        1,
        2,
        3,
        4,
        7,
        8,
        0x7F,
        0xFF,
        0xFFFF,
        0x7FFFFFFF,
        0x80000000,
        0xFFFFFFFC,
        0xFFFFFFFF,
    ]
    refused = 0
    for sample in SAMPLES[::4]:
        for at in range(0, len(sample) - 3, 2):
            for word in numbers.sample(words, 4):
                changed = bytearray(sample)
                struct.pack_into("<I", changed, at, word)
                refused += take(bytes(changed)) is None
    assert refused > 500


def test_a_bad_payload_does_not_hide_who_sent_it() -> None:
    data = bytearray(pack(m.Envelope(session=1, correlation_id=77, payload=full(Bytes))))
    position = data.index(bytes(range(3, 8))) - 4  # the length of the bytes
    struct.pack_into("<I", data, position, 10**6)
    with pytest.raises(BadPayload, match=r"Bytes.data claims 1000000 elements") as told:
        unpack(bytes(data))
    assert told.value.envelope.correlation_id == 77
    assert told.value.envelope.payload is None


def table(vtable: list[int], fields: bytes) -> bytes:
    """A message whose root is one table: identifier, vtable, table."""
    sizes = struct.pack(f"<{2 + len(vtable)}H", 4 + 2 * len(vtable), 4 + len(fields), *vtable)
    sizes += bytes(-len(sizes) % 4)
    at = 8 + len(sizes)
    return struct.pack("<I4s", at, b"LKC1") + sizes + struct.pack("<i", at - 8) + fields


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "leaves the message"),
        (bytes(8), "identifier"),
        (b"\0\0\0\0LKC1", "offset 0 at byte 0, which leads nowhere"),
        (b"\xff\0\0\0LKC1", "offset 255"),
        (b"\x06\0\0\0LKC1\0\0\0\0", "not aligned to 4"),
        (b"\x08\0\0\0LKC1\x10\0\0\0", "vtable of Envelope is at byte -8"),
        (b"\x08\0\0\0LKC1\xf0\xff\xff\xff", "leaves the message"),
        (b"\x08\0\0\0LKC1\0\0\0\0", "has the sizes 0 and 0"),
        (b"\x08\0\0\0LKC1\xfc\xff\xff\xff\xc8\0\x04\0", "the vtable of Envelope at byte 12 leaves"),
        (table([4], b""), r"session is at byte 4 of a table of 4 bytes"),
        (table([3], bytes(8)), "session is at byte 3"),
        (table([4], bytes(8)), "aligned to 8"),
        (table([0, 0, 4], b"\x09\0\0\0"), "has the value 9, which is no Kind"),
        (table([0, 0, 0, 4], b"\x04\0\0\0"), "Envelope.method at byte"),
        (table([0, 0, 0, 4], b"\x04\0\0\0\x05\0\0\0abcde"), "leaves the message"),
        (table([0, 0, 0, 4], b"\x04\0\0\0\x02\0\0\0abcd"), "without a zero"),
        (table([0, 0, 0, 4], b"\x04\0\0\0\x02\0\0\0a\xff\0\0"), "not UTF-8"),
        (table([0] * 10 + [4], b"\x01\0\0\0"), "a type and no value"),
        (table([0] * 11 + [4], b"\x04\0\0\0"), "a type and no value"),
        (table([0] * 10 + [4, 8], b"\xc8\0\0\0\x04\0\0\0"), "type 200, which this lanekit"),
    ],
)
def test_each_kind_of_damage_is_named(data: bytes, told: str) -> None:
    with pytest.raises(MalformedMessage, match=told):
        unpack(data)
    assert issubclass(MalformedMessage, LanekitError)


def test_a_message_that_unfolds_without_end_is_given_up() -> None:
    # Lists whose elements are all the same list: few bytes, and a million tables to visit.
    count = 2000
    term = table([0, 0, 4], b"\x04\0\0\0")  # a term with a list of parameters
    parameters = struct.pack("<I", count)
    start = len(term) + 4
    parameter = start + 4 * count + 8
    for i in range(count):
        parameters += struct.pack("<I", parameter - (start + 4 * i))
    bottom = struct.pack("<HHHH", 4, 4, 0, 0) + struct.pack("<i", 8)
    inner = term + parameters + bottom
    found = fb.decode(inner, m.ObservationTerm, b"LKC1")
    assert len(found.params) == count  # once is fine
    # Now a contract with a list of `count` such terms, all of them this one.
    head = table([0, 0, 0, 4], b"\x04\0\0\0")
    listed = struct.pack("<I", count)
    start = len(head) + 4
    body = start + 4 * count
    body += -body % 8
    target = body + struct.unpack_from("<I", inner)[0]
    for i in range(count):
        listed += struct.pack("<I", target - (start + 4 * i))
    outer = (head + listed).ljust(body, b"\0") + inner
    with pytest.raises(MalformedMessage, match="refers to the same bytes too often"):
        fb.decode(outer, m.TaskContract, b"LKC1")
