"""Pictures of a student's own code at work: experiments in the sandbox, drawings on our side.

An exercise with plots has a file `tests/plots/<chapter>/plot_<exercise>.py`, which contains

- `experiment(student)`: runs in the sandbox, with the student's module, and returns plain data (numbers,
  strings, lists, dicts), which is untrusted from then on. It contains nothing secret from students;
- `Data`: a msgspec struct, into which the data is converted before any other use. Its bounds
  keep a drawing finite. A text in it has at most 100 characters and is never a formula;
- `draw(figure, data)`: draws a `Data` into a (sub)figure of matplotlib, on our side;
- `SIZE`: width and height of the drawing, in inches;
- `RUNS`, if the experiment measures: the most runs, alternating with the reference's. `draw`
  then gets the list of their `Data`;
- `own_figure(student, data)`, if the exercise asks for a figure: also runs in the sandbox, gets the
  data as a dict, and returns the student's own figure as the bytes of a PNG.

Each function in the sandbox gets one test's share of the exercise's time. Data may leave out parts that are not
written yet (NotImplementedError): part of a picture is better than none.

`plot` starts the `process` that draws, and writes its pictures. `png` checks untrusted pictures, and `style` is
the look of all pictures.
"""
