"""
The C++ side of Thunder: traces, operators, passes, front end and runtime.
"""
