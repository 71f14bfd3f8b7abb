"""What was found for kinds of anchors: the best structures and numbers of many sizes, for guesses and first batches.

Its files, in reading order:

- `anchor`: The block that most of a program's work is in, its kind and its size
- `roles`: What blocks, buffers and loops are to the anchor, whatever their names are
- `entries`: What was found for one size, and files of it
- `single_images`: What was found for a batch of one, as what is known of the same without a batch
- `joined_indices`: What was found for rows, as what is known of the same with several indices of rows or of a batch
- `narrow_elements`: What was found for numbers of f32, as what is known of the same with an operand of f16
- `library`: The files that are installed, and the nearest entries of an anchor
- `distill`: Entries from a database of records
"""
