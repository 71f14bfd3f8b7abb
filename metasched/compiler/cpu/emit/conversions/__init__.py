"""Conversions between types of numbers that a target has no instruction for, as arithmetic on their bits.

Its files, in reading order:

- `float_bits`: Instructions on the bits of floats, and on numbers as they are, for conversions that are written as
  arithmetic
- `small_floats`: Conversions between f32 and floats of at most 8 bits, by their formats: integer arithmetic, the same
  in every lane
- `small_integers`: Integers of less than 8 bits, which lie in the lowest bits of a byte
- `half_floats`: Conversions of the types of storage, mostly from and to f32: values in registers are their bits
- `saturation`: What a conversion to short integers does by itself: it keeps within the range of its type without being
  told
"""
