"""What is wrong or surprising in data files: other formats, long lines, repeated examples, unseen symbols."""
