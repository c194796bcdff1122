"""Envelopes as bytes, and errors as envelopes."""

from __future__ import annotations

from lanekit import errors
from lanekit.command.flatbuffer import decode_apart, encode
from lanekit.command.messages import FILE_IDENTIFIER, Envelope, ErrorCode, Kind

# An error's message travels in the same ring as everything else: this much of it.
_ERROR_TEXT_MAX = 2000


class BadPayload(errors.MalformedMessage):
    """The payload is malformed, but whose it is can be told: from :attr:`envelope`."""

    def __init__(self, message: str, envelope: Envelope) -> None:
        super().__init__(message)
        self.envelope = envelope


def pack(envelope: Envelope) -> bytes:
    """Return an envelope as it travels."""
    return encode(envelope, FILE_IDENTIFIER)


def unpack(data: bytes) -> Envelope:
    """Read an envelope that may be anything.

    Raises :class:`~lanekit.MalformedMessage`, as a :class:`BadPayload` if only the payload is bad.
    """
    envelope, read_payload = decode_apart(data, Envelope, FILE_IDENTIFIER)
    try:
        object.__setattr__(envelope, "payload", read_payload())  # nobody else has seen it yet
    except errors.MalformedMessage as error:
        raise BadPayload(str(error), envelope) from None
    return envelope


def error_reply(request: Envelope, kind: Kind, code: ErrorCode, name: str, text: str) -> Envelope:
    """Return the answer that tells of an error."""
    if len(text) > _ERROR_TEXT_MAX:
        text = text[:_ERROR_TEXT_MAX] + " …"
    return Envelope(
        session=request.session,
        correlation_id=request.correlation_id,
        kind=kind,
        error_code=code,
        error_type=name,
        # What is no text can not travel, and an error is no place to fail.
        error_message=text.encode(errors="replace").decode(),
    )


def error_of(reply: Envelope, method: str) -> Exception | None:
    """Return the exception that an answer tells of, None if it tells of none."""
    text = reply.error_message
    match reply.error_code:
        case ErrorCode.OK:
            return None
        case ErrorCode.UNKNOWN_METHOD:
            return errors.UnknownMethod(f"{method}: {text}")
        case ErrorCode.MALFORMED_REQUEST:
            return errors.MalformedMessage(f"{method}: the server refused the request: {text}")
        case ErrorCode.DEADLINE_PASSED:
            return errors.ReplyTimeout(f"{method}: {text}")
        case ErrorCode.TOO_LARGE:
            return errors.TooLarge(f"{method}: {text}")
        case _:
            name = reply.error_type
            return errors.RemoteError(f"{method}: {name}: {text}", name, text)
