"""Speed and memory of attnlab. Prints tables and asserts nothing about time; README.md has the commands and figures."""
