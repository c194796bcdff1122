"""The wire: telemetry.proto, and what tools/generate_protocol.sh makes of it."""
