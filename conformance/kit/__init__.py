"""What a test body is written with. It runs on a rank, or in the process that calls check.

Six modules watch a Function at work. ``witness`` sees what it does to its ctx, phase by phase; ``witnessing`` puts the
class under that witness while a block runs, and ``looks`` does so for every sample. ``recording`` keeps what the static
methods were given and returned; ``operations`` lists the PyTorch operations that one of them carries out. ``stand_ins``
is what all of them put in a method's place.
"""
