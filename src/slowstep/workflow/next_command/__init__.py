"""What to type next: one module for each situation in which a report is read. A report that names no command has one by its finding."""
