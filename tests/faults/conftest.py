"""The small suite runs on ranks, never in pytest."""

collect_ignore_glob = ["suite/*"]
