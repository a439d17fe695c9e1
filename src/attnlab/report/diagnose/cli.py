"""`python report.py diagnose=<run folder> ...`: figures of the attentions of a run."""

from collections.abc import Sequence

from attnlab.config.command_line.command_frame import command
from attnlab.config.command_line.option_parser import options_help, read_options, unknown_options
from attnlab.config.problem import ConfigError
from attnlab.plots.png_caption import caption_of
from attnlab.report.diagnose.options import DiagnoseOptions
from attnlab.run.named_runs import folder_words
from attnlab.run.run_folder import RunError, inner_folder, require_writable

PROGRAM = "report.py diagnose=<run folder>"
ELSEWHERE = "choose another folder with out="
HELP = f"""python {PROGRAM} [key=value ...]

Figures of the attentions of a finished or stopped run, and their numbers as csv.

{options_help(DiagnoseOptions, 19)}
"""


@command(lambda: HELP, prefix="report.py")
def diagnose_main(argv: Sequence[str]) -> int:
    """Run the command line; returns the exit code. torch is imported when the words are right."""
    line = read_options(DiagnoseOptions, argv, folder_words(argv, ("diagnose", "compare")))
    if problems := unknown_options(DiagnoseOptions, line.others) + line.problems:
        raise ConfigError(problems, PROGRAM)
    options = line.complete()
    out = options.out or inner_folder(options.diagnose, "diagnosis")
    require_writable(out, ELSEWHERE)
    from attnlab.report.diagnose.run_figures import diagnose_run

    try:
        for file in diagnose_run(options, out):
            print(file)
            if file.suffix == ".png":
                print(f"  {caption_of(file)}")
    except ConfigError as error:
        raise RunError(str(error)) from None
    except OSError as error:
        raise RunError(f"cannot write {error.filename}: {error.strerror}; {ELSEWHERE}") from None
    return 0
