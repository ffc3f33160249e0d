"""The claims of the two studies, the scores that they published, and the verdicts on both."""
