"""What is wrong or surprising in data files: another format, repeated examples, symbols never trained on."""
