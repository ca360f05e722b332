"""The split screen of an exam: the only place that knows textual."""
