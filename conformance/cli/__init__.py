"""The conformance command."""
