//! `fathom bench`: order and number of runs, hooks, statuses, the gate, and that nothing is left.

use std::fs;
use std::process::Output;

use fathom_record::{Record, RunState, State};
use rustix::process::Signal;

use crate::children::{send, spawn_piped, wait_until};
use crate::test_env::{
    ProgramTestEnv, assert_contains, assert_message, assert_status, document, of_metric, text,
    unwrapped_stdout,
};

fn bench(env: &ProgramTestEnv, arguments: &[&str]) -> Output {
    env.run(&[&["bench"], arguments].concat())
}

fn log(env: &ProgramTestEnv) -> String {
    fs::read_to_string(env.file("log")).unwrap_or_default()
}

/// Asserts exit status 1 and a message; the plan may have been printed before.
fn failed(output: &Output, parts: &[&str]) {
    assert_status(output, 1);
    assert_contains(&text(&output.stderr), parts);
}

fn values(record: &Record) -> usize {
    record.samples.as_ref().expect("samples").iter().map(|sample| sample.values.len()).sum()
}

#[test]
fn each_block_has_each_command_once_in_random_order() {
    let env = ProgramTestEnv::new();
    let commands = ["a", "b", "c"].map(|name| format!("sh -c 'echo {name} >> log'"));
    let [a, b, c] = commands.each_ref().map(String::as_str);
    let output = bench(&env, &[a, b, c, "--runs", "20", "--seed", "3", "--json", "--samples"]);
    assert_status(&output, 0);
    let log = log(&env);
    let order: Vec<&str> = log.lines().collect();
    assert_eq!(order.len(), 60, "exactly --runs, no pilot");
    for block in order.chunks(3) {
        let mut names = block.to_vec();
        names.sort_unstable();
        assert_eq!(names, ["a", "b", "c"]);
    }
    assert!(order.chunks(3).any(|block| block != ["a", "b", "c"]), "always the same order");
    let document = document(&output);
    assert_eq!((document.run.seed, document.run.state), (3, RunState::Complete));
    let commands = document.records.iter().filter(|it| it.text_of("command").is_some());
    assert!(commands.clone().all(|record| values(record) == 20) && commands.count() == 3);
    let ratios = of_metric(&document, "bench.ratio");
    assert_eq!(ratios.len(), 2, "to the first command");
    for ratio in ratios {
        assert_eq!(ratio.summary.as_ref().expect("pairs").process_medians.len(), 20);
        assert!(ratio.is_intact());
    }
}

#[test]
fn every_view_shows_commands() {
    let env = ProgramTestEnv::new();
    for _ in 0..2 {
        let output = bench(&env, &["true", "-n", "nothing", "--runs", "9"]);
        assert_status(&output, 0);
        assert_contains(&text(&output.stdout), &["9 runs", "nothing", "in order"]);
    }
    for line in [
        "show latest:bench",
        "show bench",
        "show bench.nothing",
        "show latest:bench bench.nothing",
        "history bench.nothing",
        "history bench",
        "compare --all latest:bench~1 latest:bench",
        "export latest:bench --format csv",
        "report latest:bench -o report.html",
    ] {
        let output = env.succeed(line);
        let is_file = line.starts_with("report");
        let shown =
            if is_file { fs::read(env.file("report.html")).unwrap() } else { output.stdout };
        assert_contains(&text(&shown), &["nothing"]);
    }
    for (range, status) in [("..9999 s", 0), ("9999 s..", 3)] {
        fs::write(env.file("limits.toml"), format!("\"bench.nothing\" = \"{range}\"\n")).unwrap();
        assert_status(&env.exec("show latest:bench --limits limits.toml"), status);
    }
    env.assert_failures("history", "bench.other | no stored run has results of bench.other");
    for line in ["explain bench.nothing", "list bench", "run bench.nothing"] {
        let output = env.exec(line);
        assert_message(&output, 2, &["`fathom show bench"]);
    }
    assert_message(&env.exec("run -- true"), 2, &["`fathom bench -- true`"]);
    env.assert_failures("show", "bench.other | no stored run has results of bench.other");
}

#[test]
fn hooks_run_in_their_places() {
    let env = ProgramTestEnv::new();
    let hook = |word: &str| format!("echo {word} >> log");
    let words = ["setup", "prepare", "conclude", "cleanup"].map(hook);
    let [setup, prepare, conclude, cleanup] = words.each_ref().map(String::as_str);
    let hooks = ["--setup", setup, "--prepare", prepare, "--conclude", conclude];
    let run = ["sh -c 'echo run >> log'", "--runs", "2", "--warmup", "1", "--cleanup", cleanup];
    assert_status(&bench(&env, &[&run[..], &hooks].concat()), 0);
    let each = "prepare\nrun\nconclude\n";
    assert_eq!(log(&env), format!("setup\n{each}{each}{each}cleanup\n"));
}

#[test]
fn commands_that_begin_alike_are_two() {
    let env = ProgramTestEnv::new();
    let command = |size: &str| format!("true data-of-the-project/{size}.cfg");
    let measure = |size: &str, more: &[&str]| {
        assert_status(&bench(&env, &[&[command(size).as_str(), "--runs", "9"], more].concat()), 0);
    };
    measure("small", &[]);
    measure("large", &[]);
    let compared = env.exec("compare latest:bench~1 latest:bench");
    let both = "another command, `true data-of-the-project/small.cfg` in A";
    assert_status(&compared, 3);
    assert_contains(&text(&compared.stderr), &["nothing to compare", both]);
    for size in ["small", "large"] {
        measure(size, &["-n", "x", "--input", "/etc/passwd"]);
    }
    let compared = unwrapped_stdout(&env.exec("compare latest:bench~1 latest:bench"));
    assert_contains(&compared, &["bench.x, another command: true data-of-the-project/small.cfg"]);
    assert!(!compared.contains("bench.x, input"), "{compared}");
    let history = unwrapped_stdout(&env.exec("history bench.x"));
    assert_contains(&history, &["another command from run", "/small.cfg` → `true data"]);
}

#[test]
fn failing_command_ends_the_runs_unless_accepted() {
    let env = ProgramTestEnv::new();
    let failing = ["sh -c 'exit 7'", "--runs", "3"];
    let cleanup = ["--cleanup", "echo cleanup >> log"];
    let output = bench(&env, &[&failing[..], &cleanup].concat());
    failed(&output, &["exited with status 7", "--ignore-failure"]);
    assert_eq!(log(&env), "cleanup\n");
    let output = bench(&env, &[&failing[..], &["--ignore-failure"]].concat());
    assert_status(&output, 0);
    assert_contains(&unwrapped_stdout(&output), &["3 of 3 runs failed"]);
    // What was measured before is stored.
    let second = "sh -c 'echo x >> log; test $(wc -l < log) -lt 4'";
    let labelled = [second, "--runs", "9", "--label", "broken"];
    failed(&bench(&env, &labelled), &["exited with status 1"]);
    let document = env.document_of("broken");
    assert_eq!(document.run.state, RunState::Interrupted);
    assert_eq!(values(&document.records[0]), 2);
    let output = bench(&env, &["true", "--runs", "2", "--prepare", "exit 4"]);
    failed(&output, &["--prepare `exit 4`", "exited with status 4"]);
    let output = bench(&env, &["sleep 600", "--runs", "2", "--timeout", "0.01"]);
    failed(&output, &["`sleep 600` ran longer than 0.01 s", "--timeout"]);
}

#[test]
fn wrong_requests_are_refused_before_anything_starts() {
    let env = ProgramTestEnv::new();
    script(&env, "crlf", "#!/bin/sh\r\necho\r\n");
    script(&env, "old", "#!/nonesuch/perl -w\n");
    let fifo = std::process::Command::new("mkfifo").arg(env.file("fifo")).status();
    assert!(fifo.expect("mkfifo").success());
    for (arguments, status, parts) in [
        (&["ls | wc"][..], 2, &["`ls | wc`", "shell syntax", "--shell sh"][..]),
        (&["LANG=C sort"], 2, &["sets a variable", "env LANG=C"]),
        (&["nonesuch-program"], 1, &["`nonesuch-program`", "PATH"]),
        (&["./nonesuch"], 1, &["`./nonesuch`: no such program"]),
        (&["/etc/passwd"], 1, &["not executable"]),
        (&["true", "-P", "n", "1..4"], 2, &["parameter n: no command has {n}"]),
        (&["true", "-n", "a", "-n", "b"], 2, &["2 names of 1 command"]),
        (&["true", "false", "-n", "a", "-n", "a"], 2, &["name `a`: given twice"]),
        (&["true", "--fail-on", "3%"], 2, &["--fail-on", "old one"]),
        (&["true", "--cold", "nonesuch"], 1, &["nonesuch"]),
        (&["true", "--cold", "."], 1, &["not a regular file"]),
        (&["true", "--cpu", "100000"], 1, &["--cpu 100000", "allowed"]),
        (&["true", "--shell", "nonesuch-shell"], 1, &["nonesuch-shell"]),
        (&["--shell", "sh", "--", "true"], 2, &["--shell", "--"]),
        (&["cat", "--input", "."], 1, &["not a regular file", "first run"]),
        (&["cat", "--input", "-"], 1, &["--input -", "name a file"]),
        (&["cat", "--input", "fifo"], 1, &["fifo: a pipe", "first run"]),
        (&["./crlf"], 1, &["CR LF", "sed -i 's/\\r$//' ./crlf"]),
        (&["./old"], 1, &["#! line names /nonesuch/perl"]),
        (&["true", "-P", "t", "0.5..2"], 2, &["`0.5..2`"]),
        (&[], 2, &["name a command"]),
    ] {
        let hook = ["--prepare", "echo hook >> log"];
        let output = bench(&env, &[&hook[..], arguments].concat());
        assert_status(&output, status);
        assert_contains(&text(&output.stderr), parts);
    }
    assert_eq!(log(&env), "", "a hook ran");
}

fn script(env: &ProgramTestEnv, name: &str, text: &str) {
    let (path, mode) = (env.file(name), std::os::unix::fs::PermissionsExt::from_mode(0o700));
    fs::write(&path, text).expect("a file");
    fs::set_permissions(&path, mode).expect("it is ours");
}

#[test]
fn script_without_its_first_line_is_named() {
    let env = ProgramTestEnv::new();
    script(&env, "bare", "echo a\n");
    failed(&bench(&env, &["./bare", "--runs", "1"]), &["without a #! line", "`sh ./bare`"]);
}

#[test]
fn expected_statuses_and_arguments_of_the_shell_are_those_given() {
    let env = ProgramTestEnv::new();
    let grep = ["grep -q a /dev/null", "true", "--exit", "0,1", "--runs", "2"];
    assert_status(&bench(&env, &grep), 0);
    failed(&bench(&env, &["sh -c 'exit 2'", "--exit", "0,1", "--runs", "2"]), &["0 or 1"]);
    let shell = ["--shell", "sh -e", "false; true", "--runs", "2"];
    failed(&bench(&env, &shell), &["status 1"]);
    let decimals = ["sleep {t}", "-P", "t", "0.001,0.002", "--runs", "2", "--json"];
    let document = document(&bench(&env, &decimals));
    assert_eq!(document.records[1].name(), "bench.sleep-t{t=0.002}");
}

#[test]
fn gate_passes_fails_or_is_undecided() {
    let env = ProgramTestEnv::new();
    let [slow, fast] = ["sleep 0.3", "true"];
    let gate = |old, new, runs| {
        let output = bench(&env, &[old, new, "--runs", runs, "--fail-on", "50%"]);
        (output.status.code(), unwrapped_stdout(&output))
    };
    let (status, screen) = gate(slow, fast, "9");
    assert_eq!(status, Some(0), "{screen}");
    assert_contains(&screen, &["true slower than sleep-0-3 by more than 50 %: pass"]);
    let (status, screen) = gate(fast, slow, "9");
    assert_eq!(status, Some(3), "{screen}");
    assert_contains(&screen, &["fail", "slower than true"]);
    let (status, screen) = gate(fast, slow, "4");
    assert_eq!(status, Some(5), "{screen}");
    assert_contains(&screen, &["undecided", "fewer than"]);
}

#[test]
fn ctrl_c_kills_the_run_and_keeps_the_others() {
    for signal in [Signal::INT, Signal::TERM] {
        let env = ProgramTestEnv::new();
        let script = "echo $$ >> log; test $(wc -l < log) -lt 3 || exec sleep 600";
        let command = format!("sh -c '{script}'");
        let cleanup = "echo cleanup >> log";
        let line = ["bench", &command, "--runs", "9", "--cleanup", cleanup];
        let child = spawn_piped(env.fathom(&line));
        wait_until("no third run", || log(&env).lines().count() == 3);
        let last = log(&env).lines().last().expect("a line").to_owned();
        send(&child, signal);
        assert_status(&child.wait_with_output().expect("it ends"), 130);
        assert!(!fs::exists(format!("/proc/{last}")).expect("/proc"), "{last} is left");
        assert_eq!(log(&env).lines().last(), Some("cleanup"));
        let document = env.latest_bench();
        assert_eq!(document.run.state, RunState::Interrupted);
        assert_eq!(values(&document.records[0]), 2);
        assert_eq!(document.records[0].verdict.state, State::Noisy);
    }
}

#[test]
fn killed_fathom_leaves_no_run() {
    let env = ProgramTestEnv::new();
    let command = "sh -c 'echo $$ > log; exec sleep 600'";
    let mut child = spawn_piped(env.fathom(&["bench", command, "--runs", "1"]));
    wait_until("no run", || log(&env).ends_with('\n'));
    let pid = log(&env).trim().to_owned();
    send(&child, Signal::KILL);
    child.wait().expect("a child");
    let state = || fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    wait_until("it is left", || state().is_empty() || state().contains(") Z "));
}

#[test]
fn parameters_make_a_case_for_each_value() {
    let env = ProgramTestEnv::new();
    let scan = ["-P", "n", "1..4", "-L", "word", "a,b c", "--runs", "5", "--json", "--samples"];
    let output = bench(&env, &[&["sh -c 'echo $1 >> log' x {word}-{n}"], &scan[..]].concat());
    assert_status(&output, 0);
    let document = document(&output);
    let cases: Vec<String> = document.records.iter().map(|one| one.params.to_string()).collect();
    assert_eq!(cases.len(), 6);
    assert!(cases.contains(&"{n=4,word=b c}".to_owned()), "{cases:?}");
    assert_eq!(log(&env).lines().filter(|line| *line == "b c-4").count(), 5);
    assert!(document.records.iter().all(|record| values(record) == 5));
}

#[test]
fn input_output_and_shell_are_those_asked_for() {
    let env = ProgramTestEnv::new();
    fs::write(env.file("in"), "words\n").expect("a file");
    let files = ["--input", "in", "--output", "out", "--runs", "3"];
    assert_status(&bench(&env, &[&files[..], &["--", "cat", "-"]].concat()), 0);
    assert_eq!(fs::read_to_string(env.file("out")).expect("a file"), "words\n");
    let shell = ["--shell", "sh", "echo a | cat > out", "--runs", "9", "--json", "--samples"];
    let output = bench(&env, &shell);
    assert_status(&output, 0);
    assert_eq!(fs::read_to_string(env.file("out")).expect("a file"), "a\n");
    let record = document(&output).records.swap_remove(0);
    assert!(record.samples.expect("samples").iter().all(|sample| sample.overhead_ns > 0.0));
    let output = bench(&env, &["echo words", "--output", "inherit", "--runs", "2", "--json"]);
    assert_contains(&text(&output.stderr), &["words\nwords\n"]);
    assert_eq!(document(&output).records.len(), 1);
}

/// As grep stops at its first match, and tar reads no file.
#[test]
fn command_that_does_less_for_dev_null_is_named() {
    let env = ProgramTestEnv::new();
    fs::write(env.file("data"), vec![7; 1 << 20]).expect("a file");
    let skips = "sh -c 'test /proc/self/fd/1 -ef /dev/null || cat data'";
    let run = |output: &str| {
        let names = ["-n", "cat", "-n", "skips", "--runs", "9", "--fail-on", "50%", "--json"];
        let whole = bench(&env, &[&["cat data", skips, "--output", output], &names[..]].concat());
        (whole.status.code(), serde_json::from_slice(&whole.stdout).expect("a document"))
    };
    for output in ["null", "/dev/null"] {
        let (status, document): (_, fathom_record::Document) = run(output);
        assert_eq!(status, Some(5), "undecided");
        for metric in ["bench.skips", "bench.ratio"] {
            let record = of_metric(&document, metric)[0];
            let reason = &record.verdict.reasons[0];
            assert_eq!(record.verdict.state, State::Noisy, "{metric}");
            assert!(reason.text.contains("as its output is /dev/null"), "{}", reason.text);
        }
        assert_eq!(of_metric(&document, "bench.cat")[0].text_of("less work"), None);
    }
    let (_, document) = run("pipe");
    for metric in ["bench.cat", "bench.skips"] {
        let record = of_metric(&document, metric)[0];
        assert_eq!(record.text_of("less work"), None);
        assert_eq!(record.quantity_of("bytes into the pipe"), Some(1_048_576.0), "{metric}");
        assert!(record.quantity_of("time of the pipe").is_some_and(|ns| ns >= 0.0));
    }
}

#[test]
fn cold_files_are_proved_before_each_run() {
    let Some(env) = ProgramTestEnv::on_device() else { return };
    fs::write(env.file("data"), vec![7; 1 << 20]).expect("a file");
    let output = bench(&env, &["cat data", "--cold", "data", "--runs", "5", "--json"]);
    assert_status(&output, 0);
    let record = document(&output).records.swap_remove(0);
    assert_eq!(record.checks["cold files"], "no page cached before 5 of 5 runs");
    assert!(record.quantity_of("read from devices").is_none_or(|bytes| bytes >= 1_048_576.0));
}

#[test]
fn pilot_sets_the_runs_and_pinned_runs_are_selected() {
    let env = ProgramTestEnv::new();
    let output = bench(&env, &["sleep 0.05", "--time", "0.2", "--cpu", "0", "--json"]);
    assert_status(&output, 0);
    let record = document(&output).records.swap_remove(0);
    let summary = record.summary.as_ref().expect("a summary");
    assert_eq!(summary.n, 9, "at least 9, and no extension");
    // It waits, so that the speed of the core does not matter.
    assert_eq!(summary.not_selected, Some(fathom_record::NotSelected::Device));
    assert_eq!(record.text_of("cpu"), Some("0"));
}

impl ProgramTestEnv {
    pub(crate) fn latest_bench(&self) -> fathom_record::Document {
        self.document_of("latest:bench")
    }
}

const FILE: &str = "
    [settings]
    runs = 5
    warmup = 1
    [parameters]
    n = [1, 2]
    [[command]]
    name = 'words'
    run = ['sh', '-c', 'echo run >> log; echo {n} words']
    output = \"{n} words\\n\"
    [[command]]
    name = 'other'
    run = 'sh -c \"exit 3\"'
    exit = 3
    limit = '..1000 s'
";

#[test]
fn file_has_commands_checks_and_limits() {
    let env = ProgramTestEnv::new();
    let run = |text: &str, options: &[&str]| {
        fs::write(env.file("bench.toml"), text).expect("a file");
        bench(&env, &[&["-f", "bench.toml"], options].concat())
    };
    let whole = run(FILE, &["--json"]);
    assert_status(&whole, 0);
    let document = document(&whole);
    let names: Vec<String> = document.records.iter().map(Record::name).collect();
    assert_eq!(names[..3], ["bench.words{n=1}", "bench.words{n=2}", "bench.other"]);
    // Of both values: the check, the warm-up, and five runs.
    assert_eq!(log(&env).lines().count(), 14);
    assert_contains(&text(&whole.stderr), &["not within ..1000 s: pass", "bench.other"]);
    let late = run(&FILE.replace("..1000 s", "..1 ns"), &["--runs", "9"]);
    assert_status(&late, 3);
    assert_contains(&text(&late.stdout), &["not within ..1.000 ns: fail", "bench.other"]);
    failed(
        &run(&FILE.replace("words\\n", "numbers\\n"), &[]),
        &["`1 words`, expected `1 numbers`"],
    );
    failed(&run(&FILE.replace("exit = 3", "exit = 0"), &[]), &["exited with status 3"]);
    // A longer output has no reader.
    let endless = FILE.replace("echo {n} words", "yes");
    failed(&run(&endless, &[]), &["line 1 of its output is `y`, expected `1 words`"]);
    for (text_of_file, words) in [
        (FILE.replace("warmup", "warm"), "line 4: unknown field `warm`"),
        (FILE.replace("..1000 s", "soon"), "limit \"soon\": expected a range with two dots"),
        (String::new(), "no [[command]] in it"),
    ] {
        let output = run(&text_of_file, &[]);
        assert_message(&output, 2, &[words]);
    }
    let gone = FILE.replace("..1000 s", "..1 ns").replace("exit 3", "rm -f bench.toml; exit 3");
    assert_status(&run(&gone, &[]), 3);
    failed(&bench(&env, &["-f", "bench.toml"]), &["open bench.toml"]);
    assert_status(&bench(&env, &["-f", "any.toml", "true"]), 2);
}

#[test]
fn examples_run() {
    let env = ProgramTestEnv::new();
    for (name, records) in [("sorting", 12), ("flags", 4)] {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let file = format!("{root}/examples/{name}.toml");
        let output = bench(&env, &["-f", &file, "--runs", "5", "--json"]);
        assert_status(&output, 0);
        assert_eq!(document(&output).records.len(), records);
    }
    let left = fs::read_dir(env.file(".")).expect("a folder").flatten();
    let left: Vec<_> = left.map(|it| it.file_name()).collect();
    let is_ours = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("fathom-");
    assert!(!left.iter().any(is_ours), "{left:?}");
}

#[test]
fn runs_before_a_failure_are_doubtful() {
    let env = ProgramTestEnv::new();
    let command = "sh -c 'echo run >> log; test \"$(wc -l < log)\" -lt 7'";
    failed(&bench(&env, &[command, "-n", "late", "--runs", "20"]), &["status 1, expected 0"]);
    let document = env.latest();
    let [late] = of_metric(&document, "bench.late")[..] else { panic!("one record") };
    let reason = late.verdict.reasons.first().expect("a reason");
    assert_eq!((values(late), late.verdict.state), (6, State::Noisy));
    assert!(reason.text.starts_with("ended early: `sh -c"), "{}", reason.text);
}

#[test]
fn words_that_are_not_unicode_are_refused_in_one_line() {
    let env = ProgramTestEnv::new();
    let mut command = env.command("bench");
    command.arg(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"caf\xe9"));
    let output = command.output().expect("it starts");
    assert_message(&output, 2, &["UTF-8"]);
}

#[test]
fn names_that_no_parameter_has_are_said() {
    let env = ProgramTestEnv::new();
    let output = bench(&env, &["echo {n} {m}", "-P", "n", "1,2", "--runs", "1"]);
    assert_message(&output, 0, &["{m} stays as it is"]);
    let output = bench(&env, &["true", "--prepare", "true {k}", "--runs", "1"]);
    assert_message(&output, 0, &["{k} stays as it is"]);
}
