"""Integers of programs: the arithmetic of indices and conditions, its normal forms, and what values it takes.

Its files, in reading order:

- `data`: Which integers depend on data, so that a program does not say what numbers they may be
- `bit_ranges`: The ranges of integers whose bits are combined or shifted, by those of the operands
- `data_ranges`: What values an integer that data says may take, whatever the data is
- `polynomial`: Polynomials with integer coefficients over expressions that are taken as they are
- `affine`: Integer index arithmetic: its normal form
- `ranges`: What values index arithmetic takes while loops run: bounds, regions, and what they prove
- `conjunctions`: Conditions as what they ask for, all of which has to hold
- `implied_guards`: Guards that other guards imply
- `linear`: Linear index arithmetic over numbers: a constant plus integer multiples of *atoms*, exact
- `quasi_affine`: The form that bindings of iteration variables have
- `evaluate`: Evaluating integer expressions over arrays: a row per candidate
"""
