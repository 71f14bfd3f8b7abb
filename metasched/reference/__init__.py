"""The reference: any program, scheduled or not, run in the plainest way. It shares nothing with the compiler."""
