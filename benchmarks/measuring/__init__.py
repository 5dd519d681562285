"""How the topics are measured and reported: time, memory, error, growth with size; tables and pictures."""
