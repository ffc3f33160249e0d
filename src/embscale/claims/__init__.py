"""The claims of the two published studies, their published scores, and the verdicts."""
