//! `fathom doctor --try` for real, in a mount and a network namespace of its own: its settings and
//! its journal are those of the test alone.

use std::process::Command;

use fathom_record::trial::{CHANGE, RULE, TRIAL_METRIC};
use fathom_record::{Document, Record};

use crate::group::skipped;
use crate::{ProgramTestEnv, text};

/// What a shell prints in the namespaces, with `$F` for the program and `$C` for a setting; `None`
/// where there can be none.
fn isolated(env: &ProgramTestEnv, script: &str) -> Option<String> {
    let start = "mount -t tmpfs none /run && C=/proc/sys/net/ipv4/tcp_congestion_control && \
                 grep -q reno /proc/sys/net/ipv4/tcp_available_congestion_control && \
                 before=$(cat $C) && [ $before != reno ] && echo ready || exit 0\n\
                 change() { env --default-signal=HUP \
                 $F doctor --try congestion=reno --for 'sleep 0.01' --time 20s \
                 >out 2>err & pid=$!; for i in $(seq 1000000); do \
                 [ -e /run/fathom/try.json ] && return; done; }\n";
    let fathom = env.fathom(&[]);
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "sh", "-c", &(start.to_owned() + script)]);
    for (name, value) in fathom.get_envs().filter_map(|(name, value)| Some((name, value?))) {
        command.env(name, value);
    }
    command.env("F", fathom.get_program()).current_dir(env.file("."));
    let printed = text(&command.output().ok()?.stdout);
    let rest = printed.strip_prefix("ready\n").map(str::to_owned);
    if rest.is_none() {
        skipped("namespaces need root, and the test two congestion controls");
    }
    rest
}

#[test]
fn trial_is_a_run_that_doctor_remembers() {
    let env = ProgramTestEnv::new();
    let script = "$F doctor --try congestion=reno --for 'true' --time 5s --seed 7 -o run.json; \
                  echo status $?; [ $(cat $C) = $before ] && echo as before; \
                  $F doctor --undo; ls /run/fathom; echo bbr >$C; $F doctor >doctor";
    let Some(printed) = isolated(&env, script) else { return };
    let end = "status 0\nas before\nnothing to restore\ntry.lock\n";
    assert!(printed.ends_with(end), "{printed}");
    assert!(printed.contains("8 measurements with each value, in turns"), "{printed}");
    assert!(printed.contains("congestion (") && printed.contains(" → reno): "), "{printed}");
    let written = std::fs::read_to_string(env.file("run.json")).expect("a document");
    let document: Document = serde_json::from_str(&written).expect("a document");
    let is_time = |it: &&Record| it.params.text("of") == Some("command");
    let time = document.records.iter().find(is_time).expect("a ratio of times");
    assert_eq!(time.metric.as_str(), TRIAL_METRIC);
    assert_eq!(time.params.text("remedy"), Some("congestion"));
    assert_eq!(time.text_of(RULE), Some("tcp-congestion"));
    assert!(time.text_of(CHANGE).is_some_and(|it| it.ends_with(" → reno")));
    assert_eq!(time.summary.as_ref().map(|it| it.processes), Some(8));
    assert_eq!((document.run.seed, document.run.procedure.as_deref()), (7, Some("doctor")));
    // The same in every view.
    let shown = env.stdout("show latest:doctor");
    assert!(shown.contains("congestion (") && shown.contains("measured: `true`"), "{shown}");
    assert!(env.stdout("export latest:doctor --format csv").contains(TRIAL_METRIC));
    env.stdout("report latest:doctor -o page.html");
    let page = std::fs::read_to_string(env.file("page.html")).expect("a page");
    assert!(page.contains(TRIAL_METRIC));
    let doctor = std::fs::read_to_string(env.file("doctor")).expect("the findings");
    let doctor = doctor.split_whitespace().collect::<Vec<&str>>().join(" ");
    let day = &document.run.started[..10];
    assert!(doctor.contains(&format!("tried here on {day}: ")), "{doctor}");
}

#[test]
fn signals_end_a_trial_with_all_restored() {
    for (signal, status) in [("INT", 130), ("TERM", 130), ("HUP", 130)] {
        let env = ProgramTestEnv::new();
        let script = format!(
            "change; kill -{signal} $pid; kill -{signal} $pid; wait $pid; echo status $?; \
             [ $(cat $C) = $before ] && echo as before; ls /run/fathom"
        );
        let Some(printed) = isolated(&env, &script) else { return };
        assert_eq!(printed, format!("status {status}\nas before\ntry.lock\n"), "SIG{signal}");
    }
}

#[test]
fn killed_trial_is_undone_by_the_next_doctor() {
    for (next, line) in
        [("doctor --undo", "restored 1 setting that a killed"), ("doctor", "restored 1 setting")]
    {
        let env = ProgramTestEnv::new();
        let script = format!(
            "change; $F doctor --try congestion=reno --for true 2>&1; kill -KILL $pid; wait $pid; \
             $F {next} 2>&1; [ $(cat $C) = $before ] && echo as before; ls /run/fathom"
        );
        let Some(printed) = isolated(&env, &script) else { return };
        assert!(printed.contains("another `fathom doctor --try` (pid "), "{printed}");
        assert!(printed.contains(line), "{printed}");
        assert!(printed.ends_with("as before\ntry.lock\n"), "{printed}");
    }
}

#[test]
fn what_cannot_be_tried_is_refused() {
    let env = ProgramTestEnv::new();
    let list = env.stdout("doctor --list");
    assert!(list.starts_with("congestion      "), "{list}");
    for (line, why) in [
        ("doctor --try THPP", "--try THPP: no such setting; did you mean `thp`? `fathom doctor"),
        ("doctor --try thp --for os.pipe.rt", "no metric or program; did you mean `os.pipe.rtt`"),
        ("doctor --try thp --for os.pipe.rtt os.wke", "--for os.wke: no metric or program"),
        ("doctor --try swappiness", "no metric shows its effect; name a program or a service"),
        ("doctor --try congestion=x", "--try congestion=x: expected one of cubic, bbr, reno"),
        ("doctor --try timer-slack --for echo a", "a command with its arguments is one word"),
        ("doctor --try timer-slack timer-slack --for a", "given twice"),
    ] {
        let output = env.exec(line);
        assert_eq!(output.status.code(), Some(2), "{line}: {output:?}");
        assert!(text(&output.stderr).contains(why), "{line}: {}", text(&output.stderr));
    }
}
