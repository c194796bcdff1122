"""The core's source as text: its ordered accesses, and what each mutant changes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ORDER = re.compile(r"memory_order_(consume|acquire|release|acq_rel|seq_cst)\b")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
OPENING_LABEL = re.compile(r"/\*\s*\[([A-Z]\d+)\]")
FUNCTION = re.compile(r"^[A-Za-z_][^\n;{}#]*?\b(\w+)\([^;{}]*\)\s*\{\n.*?^\}", re.M | re.S)
CALL = re.compile(r"\b(atomic_\w+?)(?:_explicit)?\s*\(")

# What each order is weakened to, one mutant each. A fence weakened to relaxed is a removed fence.
WEAKER = {
    "consume": ("relaxed",),
    "acquire": ("relaxed",),
    "release": ("relaxed",),
    "acq_rel": ("acquire", "release"),
    "seq_cst": ("acq_rel", "relaxed"),
}


def blank_comments(text: str) -> str:
    """Return the text with comments turned to spaces, every offset unchanged."""
    return COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def _token_pattern(token: str) -> str:
    """Match a token; any order for an order, also where relacy.py has made it switchable."""
    if token.startswith("memory_order_"):
        return r"(?:LK_ORDER\(\d+,\s*)?memory_order_\w+\)?"
    return re.escape(token)


def _comment_text(text: str, start: int) -> str:
    """Return a comment's words on one line, without its label."""
    words = text[start + 2 : text.index("*/", start)]
    return re.sub(r"^\[\w+\]\s*", "", " ".join(re.sub(r"\n\s*\*", " ", words).split()))


@dataclass(frozen=True)
class Site:
    """One ordered access: an order stronger than relaxed, at one place of the source."""

    number: int
    file: str
    function: str
    label: str
    line: int
    kind: str  # load, store, fence, compare_exchange_strong, ...
    order: str
    why: str  # the comment above it, without its label
    start: int  # of the memory_order_* word
    end: int

    @property
    def name(self) -> str:
        return f"{self.file}:{self.function}:[{self.label}]:{self.line}"


@dataclass(frozen=True)
class Swap:
    """Two neighbouring pieces of a function whose order the protocol relies on."""

    file: str
    function: str
    first: str
    second: str
    what: str

    def region(self, text: str) -> tuple[int, int, int, int]:
        """Return where the two pieces are: start and end of the first, then of the second."""
        body = next((m for m in FUNCTION.finditer(text) if m.group(1) == self.function), None)
        if body is None:
            raise SourceError(f"{self.file} has no function {self.function} any more")
        spans: list[int] = []
        code = blank_comments(text)
        for piece in (self.first, self.second):
            pattern = r"\s*".join(_token_pattern(token) for token in re.findall(r"\w+|\S", piece))
            found = list(re.compile(pattern).finditer(code, body.start(), body.end()))
            if len(found) != 1:
                raise SourceError(f"{self.file}:{self.function}: {len(found)} times: {piece}")
            spans += found[0].span()
        if code[spans[1] : spans[2]].strip():
            raise SourceError(f"{self.file}:{self.function}: not neighbours: {self.what}")
        return spans[0], spans[1], spans[2], spans[3]


@dataclass(frozen=True)
class Mutant:
    """One deliberate mistake: a weaker order at a site, or two pieces swapped."""

    number: int
    site: Site | None = None
    weaker: str = ""
    swap: Swap | None = None

    @property
    def name(self) -> str:
        if self.site is not None:
            return self.site.name
        assert self.swap is not None
        return f"{self.swap.file}:{self.swap.function}"

    @property
    def change(self) -> str:
        if self.site is None:
            assert self.swap is not None
            return f"swapped: {self.swap.what}"
        if self.site.kind == "thread_fence" and self.weaker == "relaxed":
            return "removed"
        return f"→ {self.weaker}"

    def apply(self, files: Mapping[str, str]) -> dict[str, str]:
        """Return the source with this mistake in it."""
        changed = dict(files)
        if self.site is not None:
            text = files[self.site.file]
            new = f"memory_order_{self.weaker}"
            changed[self.site.file] = text[: self.site.start] + new + text[self.site.end :]
            return changed
        assert self.swap is not None
        text = files[self.swap.file]
        a, b, c, d = self.swap.region(text)
        changed[self.swap.file] = text[:a] + text[c:d] + text[b:c] + text[a:b] + text[d:]
        return changed


class SourceError(Exception):
    """The source no longer has the shape that a model was written for."""


# Orders of statements that no weakened access expresses. A statement that has gone or moved away
# stops the run: then the pair is to be looked at again.
SWAPS = (
    Swap(
        "lk_seqlock.h",
        "lk_seqlock_begin_write",
        "atomic_store_explicit(seq, odd, memory_order_relaxed);",
        "atomic_thread_fence(memory_order_release);",
        "odd word after its fence",
    ),
    Swap(
        "lk_frame_writer.c",
        "publish",
        "begin_frame(writer);",
        "writer->copy_pixels(next_slot(writer)->pixels, pixels, pixels_size);",
        "odd word after the pixels",
    ),
    Swap(
        "lk_frame_writer.c",
        "finish_frame",
        "atomic_store_explicit(&slot->metadata_size, "
        "metadata != NULL ? metadata_size : LK_NO_METADATA, memory_order_relaxed);",
        "lk_seqlock_end_write(&slot->seq, lk_frame_word_complete(seq));",
        "even word before the payload's last word",
    ),
    Swap(
        "lk_frame_writer.c",
        "finish_frame",
        "lk_seqlock_end_write(&slot->seq, lk_frame_word_complete(seq)); writer->published = seq; "
        "writer->next_index = writer->next_index + 1 < writer->geometry.capacity "
        "? writer->next_index + 1 : 0; beat(writer, now);",
        "announce(writer, seq);",
        "head before the even word",
    ),
    Swap(
        "lk_frame_writer.c",
        "store_metrics",
        "lk_seqlock_begin_write(&header->metrics_seq, seq);",
        "atomic_store_explicit(&header->last_reward, lk_double_bits(metrics->last_reward), "
        "memory_order_relaxed);",
        "odd word after the first metric",
    ),
    Swap(
        "lk_frame_writer.c",
        "store_metrics",
        "atomic_store_explicit(&header->step_rate_hz, lk_double_bits(metrics->step_rate_hz), "
        "memory_order_relaxed);",
        "lk_seqlock_end_write(&header->metrics_seq, seq + 1);",
        "even word before the last metric",
    ),
    Swap(
        "lk_frame_writer.c",
        "open_segment",
        "writer->header->geometry = writer->geometry;",
        "lk_segment_make_ready(writer->segment);",
        "ready before the geometry",
    ),
    Swap(
        "lk_frame_reader.c",
        "copy_frame",
        "*word = lk_seqlock_begin_read(&slot->seq); "
        "if (*word != lk_frame_word_complete(seq)) { return ATTEMPT_LAPPED; }",
        "if (to->pixels != NULL) { "
        "lk_copy_from_shared(to->pixels, slot->pixels, reader->geometry.payload_size); }",
        "first look after the pixels",
    ),
    Swap(
        "lk_frame_reader.c",
        "lk_frame_metrics",
        "uint64_t word = lk_seqlock_begin_read(&header->metrics_seq);",
        "uint64_t reward = atomic_load_explicit(&header->last_reward, memory_order_relaxed);",
        "first look after the first metric",
    ),
    Swap(
        "lk_segment_map.c",
        "lk_segment_release",
        "lk_segment_disown(segment);",
        "if (base != NULL) { atomic_store_explicit(&segment->base, 0, memory_order_relaxed); "
        "munmap(base, size); }",
        "unmapped before the handlers let go",
    ),
    Swap(
        "lk_segment_map.c",
        "lk_segment_release",
        "if (base != NULL) { atomic_store_explicit(&segment->base, 0, memory_order_relaxed); "
        "munmap(base, size); }",
        "pool_return(segment);",
        "entry returned before its last use",
    ),
    Swap(
        "lk_wait.h",
        "lk_announce",
        "atomic_store_explicit(sequence, value, memory_order_release);",
        "atomic_thread_fence(memory_order_seq_cst);",
        "sequence raised after the fence",
    ),
    Swap(
        "lk_wait.c",
        "lk_wait_beyond",
        "raise_wake_at(wake_at, seen + 1);",
        "atomic_thread_fence(memory_order_seq_cst);",
        "wake_at raised after the fence",
    ),
    Swap(
        "lk_wait.h",
        "lk_wake_beyond",
        "atomic_thread_fence(memory_order_seq_cst);",
        "if (atomic_load_explicit(wake_at, memory_order_relaxed) > before) { "
        "lk_futex_wake_all(sequence); }",
        "look for sleepers before the fence",
    ),
    Swap(
        "lk_ring.c",
        "lk_ring_write",
        "copy_in(writer, before + sizeof length, payload, size); "
        "copy_in(writer, end, zeros, (size_t)(before + needed - end));",
        "writer->position = before + needed; "
        "atomic_store_explicit(&writer->header->write_pos, writer->position, "
        "memory_order_release);",
        "position before the payload",
    ),
    Swap(
        "lk_ring.c",
        "lk_ring_write",
        "atomic_store_explicit(&writer->header->write_pos, writer->position, "
        "memory_order_release);",
        "lk_wake_beyond(&writer->header->write_pos, &writer->header->entry_wake_at, before);",
        "reader woken before the position moves",
    ),
    Swap(
        "lk_ring.c",
        "lk_ring_read",
        "copy_out(reader, before + sizeof(uint32_t), payload, *size);",
        "reader->position = before + entry_size(*size); "
        "atomic_store_explicit(&reader->header->read_pos, reader->position, memory_order_release);",
        "position before the copy",
    ),
    Swap(
        "lk_ring.c",
        "lk_ring_read",
        "atomic_store_explicit(&reader->header->read_pos, reader->position, memory_order_release);",
        "lk_wake_beyond(&reader->header->read_pos, &reader->header->space_wake_at, before);",
        "writer woken before the position moves",
    ),
    Swap(
        "lk_segment_map.c",
        "lk_segment_map",
        "atomic_store_explicit(&segment->size, size, memory_order_relaxed);",
        "atomic_store_explicit(&segment->base, (uintptr_t)base, memory_order_release);",
        "base before the size",
    ),
    Swap(
        "lk_segment_map.c",
        "lk_segment_own",
        "segment->owner_pid = getpid();",
        "atomic_store_explicit(&segment->ownership, LK_OWNED, memory_order_release);",
        "owned before the owner is named",
    ),
    Swap(
        "lk_step_client.c",
        "leave_place",
        "atomic_store_explicit(&client->header->client, 0, memory_order_relaxed);",
        "lk_segment_drop_role(client->segment, LK_ROLE_CLIENT);",
        "role given up before the mark is cleared",
    ),
    Swap(
        "lk_step_client.c",
        "send",
        "atomic_store_explicit(&header->requests[out->half], request, memory_order_relaxed); "
        "atomic_store_explicit(&client->sent, out->number, memory_order_relaxed); "
        "lk_streaming_fence();",
        "lk_announce(&header->action_seq, &header->action_wake_at, out->number);",
        "request after it is announced",
    ),
    Swap(
        "lk_traj_ring.h",
        "lk_traj_ring_publish",
        "atomic_store_explicit(&ring->head, head, memory_order_release);",
        "atomic_thread_fence(memory_order_seq_cst);",
        "head raised after the fence",
    ),
    Swap(
        "lk_traj_ring.h",
        "lk_traj_ring_free",
        "atomic_store_explicit(&ring->tail, tail, memory_order_release);",
        "atomic_thread_fence(memory_order_seq_cst);",
        "tail raised after the fence",
    ),
    Swap(
        "lk_traj_ring.h",
        "lk_traj_ring_sleep_for_room",
        "atomic_store_explicit(&ring->wake_at, want, memory_order_relaxed);",
        "atomic_thread_fence(memory_order_seq_cst);",
        "wake_at set after the fence",
    ),
    Swap(
        "lk_traj_ring.h",
        "lk_traj_ring_sleep_for_record",
        "atomic_store_explicit(&header->asleep, 1, memory_order_relaxed);",
        "atomic_thread_fence(memory_order_seq_cst);",
        "asleep set after the fence",
    ),
)


class Source:
    """All of the core's files, its ordered accesses and its mutants."""

    def __init__(self, directory: Path) -> None:
        paths = sorted(p for p in directory.glob("*.[ch]") if p.is_file())
        self.directory = directory
        self.files = {path.name: path.read_text(encoding="utf-8") for path in paths}

    @cached_property
    def sites(self) -> list[Site]:
        return list(self._find_sites())

    def _find_sites(self) -> Iterator[Site]:
        number = 0
        for file, text in self.files.items():
            code = blank_comments(text)
            functions = list(FUNCTION.finditer(code))
            for order in ORDER.finditer(code):
                home = next((f for f in functions if f.start() < order.start() < f.end()), None)
                if home is None:
                    raise SourceError(f"{file}: an ordered access outside of any function")
                calls = list(CALL.finditer(code, home.start(), order.start()))
                labels = list(OPENING_LABEL.finditer(text, home.start(), order.start()))
                yield Site(
                    number=number,
                    file=file,
                    function=home.group(1),
                    label=labels[-1].group(1) if labels else "?",
                    line=text.count("\n", 0, order.start()) + 1,
                    kind=calls[-1].group(1).removeprefix("atomic_") if calls else "?",
                    order=order.group(1),
                    why=_comment_text(text, labels[-1].start()) if labels else "",
                    start=order.start(),
                    end=order.end(),
                )
                number += 1

    @cached_property
    def mutants(self) -> list[Mutant]:
        weakened = [(site, weaker) for site in self.sites for weaker in WEAKER[site.order]]
        orders = [Mutant(i, site=s, weaker=w) for i, (s, w) in enumerate(weakened)]
        for swap in SWAPS:
            swap.region(self.files[swap.file])
        return orders + [Mutant(len(orders) + i, swap=swap) for i, swap in enumerate(SWAPS)]
