"""Pictures of what a student's own code does: experiments in the sandbox, drawings on our side.

An exercise that can be drawn has a file `tests/plots/<chapter>/plot_<exercise>.py`. In it are

- `experiment(student)`: runs in the sandbox, with the student's module, and returns plain data (numbers,
  strings, lists, dicts), which is a stranger's from then on. It holds nothing that students may not see;
- `Data`: a msgspec struct, into which that is converted before anything else is done with it. Its bounds
  are what keeps a drawing finite. A text in it has at most 100 characters and is never a formula;
- `draw(figure, data)`: draws a `Data` into a (sub)figure of matplotlib, on our side;
- `SIZE`: width and height of the drawing, in inches;
- `RUNS`, if the experiment measures: how many times it is run at most, in turn with the reference's. `draw`
  then gets the list of their `Data`;
- `own_figure(student, data)`, if the exercise asks for a figure: runs in the sandbox, too, gets the
  data as a dict, and returns the student's own figure as the bytes of a PNG.

Both functions of the sandbox get the share of a test of the exercise's time. What is not written yet may
be left out of the data (NotImplementedError): a part of the picture is better than none.

`plot` starts the `process` that draws and writes its pictures. `png` checks those that a stranger made, and
`style` is the look of all pictures.
"""
