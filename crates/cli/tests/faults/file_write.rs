//! System calls that fail under `fathom file write`, and kills at them: the file is there whole or
//! not at all, nothing else is left, and what is printed is true.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use fathom_fileio::{Generator, Sum};
use fathom_lab::processes;
use fathom_lab::seeded::Seeded;
use fathom_lab::strace::{self, Fault, Injection};

use crate::place::Place;
use crate::tampering::{self, Tampering};
use crate::{amount, tell};

const BYTES: usize = 64 << 10;
/// What was there before, where something was.
const BEFORE: &[u8] = b"before";
const PATIENCE_S: u64 = 60;

/// A way of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form {
    sync: &'static str,
    force: bool,
}

const FORMS: [Form; 3] = [
    Form { sync: "data", force: false },
    Form { sync: "every", force: true },
    Form { sync: "none", force: true },
];

impl Form {
    fn place(self) -> Place {
        let place = Place::new();
        std::fs::create_dir(place.file("out")).expect("a folder");
        if self.force {
            std::fs::write(place.file("out/data"), BEFORE).expect("a file");
        }
        place
    }

    fn command(self, place: &Place) -> std::process::Command {
        let path = place.file("out/data");
        let path = path.to_str().expect("a name");
        let mut words =
            vec!["file", "write", path, "--block", "4K", "--count", "16", "--sync", self.sync];
        words.extend(self.force.then_some("--force"));
        place.fathom(&words)
    }
}

/// The data that the program writes.
fn data() -> Vec<u8> {
    let mut bytes = vec![0; BYTES];
    Generator::new(0).fill(0, &mut bytes);
    bytes
}

#[test]
fn a_call_that_fails_leaves_the_whole_file_or_none() {
    if let Some(why) = strace::obstacle() {
        println!("skipped: {why}");
        return;
    }
    let mut trials = Vec::new();
    for form in FORMS {
        trials.extend(of_baseline(form).into_iter().map(|tampering| (form, tampering)));
    }
    let trials = tampering::sample(trials, |(_, tampering)| &tampering.injection.call);
    let (next, told) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..amount(3, 4) {
            scope.spawn(|| {
                while let Some((form, tampering)) = trials.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let Some(word) = take(*form, tampering) else { continue };
                    let told = told.lock();
                    told.expect("no panic").push((*form, tampering.clone(), word));
                }
            });
        }
    });
    report(&told.into_inner().expect("no panic"));
}

/// Every fault that makes sense for an undisturbed write.
fn of_baseline(form: Form) -> Vec<Tampering> {
    let place = form.place();
    let log = place.file("calls");
    let mut traced = strace::under(&form.command(&place), None, &log);
    place.said_to(&mut traced);
    assert!(traced.status().expect("it starts").success(), "an undisturbed write");
    let calls = strace::calls(&log);
    // What is before is the loader's and the language's.
    let main = calls.iter().position(|call| call.line.contains("SIGINT")).expect("its first act");
    tampering::of(&calls[main..], &place.file("out/data"))
}

/// Takes a trial. `None` where the program did not come to that call.
fn take(form: Form, tampering: &Tampering) -> Option<Result<&'static str, String>> {
    let place = form.place();
    let log = place.file("calls");
    let injection = &tampering.injection;
    let mut traced = strace::under(&form.command(&place), Some(injection), &log);
    let said = place.said_to(&mut traced);
    let status = processes::ended_within(&mut traced.spawn().expect("it starts"), PATIENCE_S);
    strace::happened(injection, &log).then(|| {
        let said = std::fs::read(said).expect("what it said");
        judge(form, &place, status, injection, &String::from_utf8_lossy(&said))
    })
}

/// Whether every promise was kept; the word for how it ended.
fn judge(
    form: Form,
    place: &Place,
    status: Option<ExitStatus>,
    injection: &Injection,
    said: &str,
) -> Result<&'static str, String> {
    let broken = |what: &str| Err(format!("{what}\n{said}"));
    let Some(status) = status else { return broken("it hangs") };
    let names = names(&place.file("out"));
    if names.iter().any(|name| name != "data") {
        return broken(&format!("left behind: {names:?}"));
    }
    let found = std::fs::read(place.file("out/data")).ok();
    let is_whole = found.as_deref() == Some(&data()[..]);
    let is_as_before = if form.force { found.as_deref() == Some(BEFORE) } else { found.is_none() };
    if !is_whole && !is_as_before {
        return broken(&format!("{:?} bytes are neither", found.map(|bytes| bytes.len())));
    }
    if injection.fault == Fault::Kill {
        return Ok("killed");
    }
    let sums = Sum::of(&data());
    let claims = said.contains(&format!("{:08x}", sums.xor)) && said.contains("verdict");
    match status.code() {
        Some(0) if is_whole && claims => Ok("done all the same"),
        Some(0) => broken("it says that all went well"),
        Some(130) => Ok("interrupted"),
        // Whom every write fails cannot say so.
        Some(1 | 2) if injection.call == "write" && injection.times.is_none() => Ok("mute"),
        Some(1 | 2) if !said.contains("fathom: ") => broken("it gives no reason"),
        Some(1 | 2) if is_whole => Ok("written, and told what else failed"),
        Some(1 | 2) if claims => broken("it prints a result of what is not there"),
        Some(1 | 2) => Ok("told, nothing left"),
        _ => broken(&format!("it ended with {status}")),
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn report(told: &[(Form, Tampering, Result<&'static str, String>)]) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut broken = Vec::new();
    for (form, tampering, word) in told {
        match word {
            Ok(word) => *counts.entry(word).or_default() += 1,
            Err(why) => broken.push(format!("{form:?}: {}: {why}", tampering.injection)),
        }
    }
    let calls: std::collections::BTreeSet<&String> =
        told.iter().map(|(_, tampering, _)| &tampering.injection.call).collect();
    let mut page = format!(
        "## System calls of `fathom file write` that fail\n\n{} faults of {} calls, {} broke a \
         promise:\n\n",
        told.len(),
        calls.len(),
        broken.len()
    );
    for (word, count) in &counts {
        page.push_str(&format!("- {word}: {count}\n"));
    }
    tell("6-file-write", &page);
    assert!(broken.is_empty(), "{}", broken.join("\n\n"));
    assert!(counts.contains_key("told, nothing left") && counts.contains_key("killed"), "{page}");
}

#[test]
fn a_kill_at_any_moment_leaves_the_whole_file_or_none() {
    let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
    let mut delays = Seeded(7);
    for number in 0..amount(50, 200) {
        let form = FORMS[number % FORMS.len()];
        let place = form.place();
        let mut command = form.command(&place);
        let said = place.said_to(&mut command);
        let mut child = command.spawn().expect("it starts");
        // Calibrating the clock alone takes 50 ms.
        std::thread::sleep(std::time::Duration::from_micros(delays.below(160_000)));
        child.kill().expect("a signal");
        let status = child.wait().expect("it ends");
        let said = std::fs::read(said).expect("what it said");
        let kill = Injection::once("", 0, Fault::Kill);
        judge(form, &place, Some(status), &kill, &String::from_utf8_lossy(&said))
            .unwrap_or_else(|why| panic!("{form:?}: {why}"));
        let is_whole = std::fs::read(place.file("out/data")).is_ok_and(|found| found == data());
        *ends.entry(if is_whole { "whole" } else { "none" }).or_default() += 1;
    }
    println!("killed at {} moments: {ends:?}", amount(50, 200));
    assert!(ends.contains_key("none"), "no kill came before the end: {ends:?}");
}
