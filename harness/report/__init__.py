"""From what was observed to a verdict, and from verdicts to reports."""
