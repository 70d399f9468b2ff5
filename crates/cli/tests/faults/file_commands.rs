//! System calls that fail under the file commands that make temporary files, and kills at them:
//! nothing is left in the folder, and what is printed is true.

use std::process::{Command, ExitStatus};

use fathom_lab::strace::{self, Fault, Injection};

use crate::fire::{self, Target, Word, names};
use crate::place::Place;

/// A command, by its words without the folder.
#[derive(Clone, Copy, Debug)]
struct Asked(&'static [&'static str]);

const ASKED: [Asked; 5] = [
    Asked(&["size", "--block", "64K", "--between", "1ms..40ms", "--max", "64M"]),
    Asked(&["sweep", "--sizes", "1M", "--blocks", "64K,1M", "--each", "1ms", "--passes", "2"]),
    Asked(&["cache", "--sizes", "1M", "--blocks", "64K", "--rounds", "1"]),
    Asked(&["calls", "--calls", "100", "--blocks", "4K", "--repeat", "1"]),
    Asked(&["contend", "--processes", "1..2", "--bytes", "1M", "--repeat", "1"]),
];

impl Target for Asked {
    fn place(self) -> Place {
        let place = Place::new();
        std::fs::create_dir(place.file("out")).expect("a folder");
        place
    }

    fn command(self, place: &Place) -> Command {
        let folder = place.file("out");
        let mut words = vec!["file"];
        words.extend(self.0);
        words.extend(["--folder", folder.to_str().expect("a name")]);
        place.fathom(&words)
    }

    fn judge(self, place: &Place, status: ExitStatus, injection: &Injection, said: &str) -> Word {
        let broken = |what: &str| Err(format!("{what}\n{said}"));
        let left = names(place);
        if !left.is_empty() {
            return broken(&format!("left behind: {left:?}"));
        }
        let running = place.left_running();
        if !running.is_empty() {
            return broken(&format!("still running: {running:?}"));
        }
        if injection.fault == Fault::Kill {
            return Ok("killed");
        }
        // A sweep names what was best, and tables have a column of what was measured.
        let claims = ["verdict", "best  ", "measured  "].iter().any(|word| said.contains(word));
        match status.code() {
            Some(0) if claims => Ok("done all the same"),
            Some(0) => broken("it ends well without a result"),
            Some(130) => Ok("interrupted"),
            // Whom every write fails cannot say so.
            Some(1) if injection.call == "write" && injection.times.is_none() => Ok("mute"),
            Some(1) if !said.contains("fathom: ") => broken("it gives no reason"),
            Some(1) if claims => Ok("done, and told what failed"),
            Some(1) => Ok("told, nothing left"),
            Some(3) if said.contains("no size") => Ok("told that no size fits"),
            _ => broken(&format!("it ended with {status}")),
        }
    }
}

#[test]
fn a_call_that_fails_leaves_no_temporary_file_and_is_told() {
    if let Some(why) = strace::obstacle() {
        println!("skipped: {why}");
        return;
    }
    let title = "System calls of the other file commands that fail";
    let counts = fire::take(("7-file-commands", title), &ASKED);
    assert!(counts.contains_key("told, nothing left") && counts.contains_key("killed"));
}
