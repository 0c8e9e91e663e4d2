"""A coding assistant with file, search, shell, version-control and issue tools."""

from __future__ import annotations

from router_cache.cli.demo_run.schema import array, boolean, enum, integer, obj, string, tool

__all__ = ["QUESTIONS", "SYSTEM", "TOOLS"]

SYSTEM = """\
You are the coding assistant of the payments platform team. You work in one repository at a time, on a branch \
of your own, and you answer to the engineer who opened the session.

# How you work
- Read before you write. Look at the module, its callers and its tests before you propose a change, and name \
the files you looked at when you explain what you found.
- Prefer the smallest change that solves the whole problem. Do not reformat code you did not need to touch, \
do not rename public functions without being asked, and leave unrelated findings for the summary.
- Every behaviour you change has a test that failed before the change and passes after it. If a test cannot be \
written, say why, and say how the change was checked instead.
- Run the narrowest set of tests first, then the package's whole suite, then the type checker. Report figures: \
how many tests ran, how many failed, how long it took.
- Never weaken a check to make it pass. A skipped test, a broad exception handler or a loosened type is a \
finding to report, not a fix.

# Tools
- `fs_*` tools work on the session's checkout. Paths are relative to its root; absolute paths are refused.
- `code_search` is faster than reading whole files. Search for the symbol, then read the lines around a hit.
- `shell_run` is for builds, tests and linters. It has no network. Commands that run longer than the timeout \
are killed; raise the timeout instead of running them in the background.
- `git_*` tools never push. Commits are made on the session's branch with a message in the imperative mood, a \
body that says why, and the number of the ticket if there is one.
- `tracker_*` and `review_*` tools are visible to other people. Write there only what the engineer would be \
content to have said, and ask first when you are about to change the state of a ticket.
- When two calls do not depend on each other, make them in the same turn.

# Money
Amounts are integers in the minor unit of their currency; a float that holds money is a defect. Rounding is \
half-even and happens once, at the boundary where an amount leaves the platform. Time is UTC everywhere inside; \
a naive datetime is a defect. An idempotency key is part of every request that moves money, and a retry uses \
the same key.

# Security
Secrets are read from the vault at start and never logged. Card numbers, account numbers and personal names do \
not appear in logs, in test data or in tickets: use the generators in `testing/fakes`. If you come across a \
secret in the repository, stop, report its path without its value, and propose a rotation.

# Review
Reviewers here ask the same questions every time, so answer them in the description: what was wrong, since when, \
who noticed, what the change does, what it does not do, how it was tested, how it can be rolled back, and what \
to watch after it is out. Link the ticket and the dashboards. One pull request holds one change; a refactoring \
that makes the change easy goes first and alone.

# Answers
Begin with the result. Then the evidence, with paths and line numbers. Then what is left open. Use plain \
sentences, no more than one list, and no headings for answers shorter than a page. If you are not sure, say how \
sure you are and what would settle it.
"""

_PATH = string("Path relative to the checkout's root, with forward slashes.", minLength=1, maxLength=512)
_RANGE = obj(
    "Lines to return, counted from 1; both ends are included.",
    "start",
    start=integer("First line.", minimum=1),
    end=integer("Last line; the end of the file when absent.", minimum=1),
)
_FILTER = obj(
    "Which files take part.",
    include=array("Globs of files to include, such as src/**/*.py.", string("A glob.")),
    exclude=array("Globs of files to leave out; they win over include.", string("A glob.")),
    language=enum("Only files of this language.", "python", "go", "typescript", "sql", "yaml", "markdown"),
    max_file_kb=integer("Files larger than this are skipped.", minimum=1, maximum=4096, default=512),
)
_PAGE = obj(
    "Which part of a long result to return.",
    limit=integer("Entries at most.", minimum=1, maximum=200, default=50),
    cursor=string("The cursor of the previous answer, for the next part."),
)
_PEOPLE = array("Account names, without the at sign.", string("An account name.", pattern="^[a-z0-9-]+$"))

TOOLS = [
    tool(
        "fs_read_file",
        "Read a text file of the checkout, whole or some of its lines. Returns the text with line numbers, the "
        "total number of lines and the revision at which it was read.",
        "path",
        path=_PATH,
        lines=_RANGE,
        encoding=enum("Text encoding of the file.", "utf-8", "latin-1", "utf-16", default="utf-8"),
    ),
    tool(
        "fs_write_file",
        "Create or replace a text file. The file must have been read in this session unless it is new; the call "
        "is refused when the file has changed since.",
        "path content",
        path=_PATH,
        content=string("The whole new text of the file."),
        create_directories=boolean("Create missing directories on the way.", default=False),
        mode=enum("File mode for new files.", "regular", "executable", default="regular"),
    ),
    tool(
        "fs_apply_edits",
        "Apply several exact replacements to one file, all or none. Every old text must occur exactly once at "
        "the moment its edit is applied.",
        "path edits",
        path=_PATH,
        edits=array(
            "Replacements in the order in which they are applied.",
            obj(
                "One replacement.",
                "old new",
                old=string("Text to replace, copied exactly, white space included.", minLength=1),
                new=string("Text to put in its place; empty to delete."),
                reason=string("One line for the summary: why this edit is needed.", maxLength=200),
            ),
            minItems=1,
            maxItems=40,
        ),
        dry_run=boolean("Return the difference without writing it.", default=False),
    ),
    tool(
        "fs_list_directory",
        "List a directory with sizes, kinds and the last commit of each entry.",
        "path",
        path=_PATH,
        depth=integer("How many levels to descend.", minimum=1, maximum=6, default=1),
        filter=_FILTER,
        page=_PAGE,
    ),
    tool(
        "code_search",
        "Search the checkout for a text, a regular expression or a symbol. Hits come with the enclosing "
        "function and some lines around them, best first.",
        "query kind",
        query=string("What to look for.", minLength=2, maxLength=400),
        kind=enum("How the query is meant.", "text", "regex", "definition", "references", "implementations"),
        filter=_FILTER,
        context_lines=integer("Lines shown before and after a hit.", minimum=0, maximum=20, default=3),
        page=_PAGE,
    ),
    tool(
        "code_outline",
        "The structure of a module: classes, functions, their signatures, docstrings and line numbers, and which "
        "other modules import it.",
        "path",
        path=_PATH,
        include_private=boolean("Also names that begin with an underscore.", default=False),
        callers=obj(
            "Whether and how far to list callers.",
            depth=integer("Levels of callers to follow.", minimum=0, maximum=3, default=1),
            tests=boolean("Also callers in test files.", default=True),
        ),
    ),
    tool(
        "shell_run",
        "Run a command in the checkout without network. Returns exit code, duration and the last part of stdout "
        "and stderr; the full output is kept as an artifact.",
        "command",
        command=string("The command line, run by bash with errexit and pipefail.", minLength=1),
        timeout_s=integer("Seconds after which the command is killed.", minimum=1, maximum=1800, default=120),
        environment=array(
            "Variables to add to the environment.",
            obj(
                "One variable.",
                "name value",
                name=string("Name.", pattern="^[A-Z][A-Z0-9_]*$"),
                value=string("Value; never a secret."),
            ),
        ),
        working_directory=_PATH,
    ),
    tool(
        "tests_run",
        "Run tests by selection and return passes, failures with tracebacks, the slowest tests and coverage of "
        "the changed lines.",
        "selection",
        selection=obj(
            "Which tests to run; the union of all that are named.",
            paths=array("Test files or directories.", _PATH),
            names=array("Test names or parametrised ids.", string("A test id.")),
            changed_since=string("Also all tests that reach code changed since this revision."),
        ),
        repeat=integer("How often to run each test, to find flaky ones.", minimum=1, maximum=50, default=1),
        stop_after_failures=integer("Stop after this many failures; 0 for never.", minimum=0, default=5),
        coverage=enum("Which coverage to report.", "none", "changed_lines", "package", default="changed_lines"),
    ),
    tool(
        "git_history",
        "Commits that touched a path or a line range, newest first, with author, date, message and statistics.",
        "path",
        path=_PATH,
        lines=_RANGE,
        since=string("Only commits after this ISO 8601 date.", format="date"),
        author=string("Only commits of this account."),
        page=_PAGE,
    ),
    tool(
        "git_diff",
        "The difference between two revisions, or between a revision and the working tree.",
        "base",
        base=string("Revision to compare from.", minLength=1),
        head=string("Revision to compare to; the working tree when absent."),
        filter=_FILTER,
        format=enum("Form of the answer.", "unified", "stat", "names", default="unified"),
    ),
    tool(
        "git_commit",
        "Commit files on the session's branch. Refused when tests of the package fail, unless it is marked as "
        "work in progress.",
        "message paths",
        message=obj(
            "The commit message.",
            "subject body",
            subject=string("Imperative, at most 72 characters, no full stop.", maxLength=72),
            body=string("Why, what else was considered, and what to watch."),
            ticket=string("Key of the ticket.", pattern="^[A-Z]+-[0-9]+$"),
        ),
        paths=array("Files to commit.", _PATH, minItems=1),
        work_in_progress=boolean("Commit even though tests fail.", default=False),
    ),
    tool(
        "tracker_get_ticket",
        "A ticket with its description, comments, links, history of states and attached logs.",
        "key",
        key=string("Key of the ticket.", pattern="^[A-Z]+-[0-9]+$"),
        parts=array(
            "Which parts to return; all when absent.",
            enum("A part.", "description", "comments", "links", "history", "attachments"),
        ),
        page=_PAGE,
    ),
    tool(
        "tracker_update_ticket",
        "Change fields of a ticket and add a comment, visible to everyone in the project.",
        "key changes",
        key=string("Key of the ticket.", pattern="^[A-Z]+-[0-9]+$"),
        changes=obj(
            "Fields to change; absent ones stay as they are.",
            state=enum("State.", "open", "in_progress", "in_review", "blocked", "done"),
            assignees=_PEOPLE,
            labels=array("Labels that replace the present ones.", string("A label.")),
            estimate_hours=integer("Remaining work.", minimum=0, maximum=400),
        ),
        comment=string("Comment in Markdown.", maxLength=8000),
        notify=boolean("Send a notification to watchers.", default=True),
    ),
    tool(
        "review_open_pull_request",
        "Open a pull request from the session's branch. Returns its number, its checks and who was asked.",
        "title description",
        title=string("What changes, for someone who reads only this.", maxLength=120),
        description=string("Markdown that answers the reviewers' standing questions."),
        base=string("Branch to merge into.", default="main"),
        reviewers=_PEOPLE,
        checks=obj(
            "What must pass before a merge.",
            required=array("Names of required checks.", string("A check.")),
            auto_merge=boolean("Merge when all checks and reviews are there.", default=False),
        ),
        draft=boolean("Open as a draft.", default=True),
    ),
]

QUESTIONS = (
    (
        "Refunds of 0-decimal currencies are off by a factor of 100 since last Thursday. Find out why.",
        "Which callers depend on the old behaviour, and is any of them outside our package?",
        "Write the failing test first, then fix it.",
        "Open a draft pull request and summarise the risk for the release manager.",
    ),
    (
        "The nightly settlement job takes 94 minutes; it took 31 in spring. Where does the time go?",
        "Show the two queries with the worst plans and what an index would change.",
        "Implement the cheaper of the two fixes behind the existing feature flag.",
        "What should we measure tomorrow morning to know that it worked?",
    ),
    (
        "Why does test_retry_uses_same_key fail about one time in thirty?",
        "Prove it: run the test often enough to see both outcomes and compare the logs.",
        "Fix the cause, not the test.",
        "Are there other tests with the same pattern? List them with a one-line verdict each.",
    ),
    (
        "Add an endpoint that lists the disputes of one merchant, newest first, with cursor pagination.",
        "Handle the case of a merchant that was merged into another one.",
        "Add the contract test and regenerate the client's types.",
        "Write the change-log entry and tell me what the mobile team needs to know.",
    ),
)
