//! Questions that people ask of a machine, each with its first command and the first screen of its
//! answer, on this machine as it is and with a busy program on each CPU.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use fathom_lab::Unmet;
use fathom_lab::evidence::{Criterion, EvidenceContents, EvidenceOrigin, QUESTIONS};
use fathom_lab::nginx;
use fathom_measure::process::Running;

use crate::sabotage;

/// A screen of a terminal.
const ROWS: usize = 24;
const COLUMNS: usize = 80;
/// Of the questions, in each round.
const ANSWERED_MIN: usize = 16;
/// Exit statuses of an answer: done, a finding, a severe one, undecided.
const ANSWERS: [i32; 4] = [0, 3, 4, 5];
const NGINX: &str = "127.0.0.1:8080";

/// What must be measured before anybody asks.
const MEASURED: [&str; 6] = [
    "fathom run --quick --label yesterday",
    "fathom run --quick",
    "for vm in a b c; do fathom --host-name vm-$vm run --quick --only --label vm-$vm \
     cpu.call memory.bandwidth memory.latency.dram os.syscall file.fsync; done",
    "head -c 64M /dev/urandom | base64 > big",
    "fathom file fast big",
    "fathom load --make 64x4KiB set",
];

/// A question, its first command, and the words of its answer that the first screen must have, each
/// with those that serve as well behind a bar.
struct Question {
    asks: &'static str,
    command: &'static str,
    answer: &'static [&'static str],
}

const fn question(
    asks: &'static str,
    command: &'static str,
    answer: &'static [&'static str],
) -> Question {
    Question { asks, command, answer }
}

const ALL: [Question; 20] = [
    question(
        "How fast are random reads of 4 KiB?",
        "fathom show file.read.latency",
        &["random", "µs"],
    ),
    question("Can I trust it?", "fathom show", &["results", "noisy|valid"]),
    question("What is wrong here?", "fathom doctor", &["Next", "programs"]),
    question(
        "Is the memory as fast as it should be?",
        "fathom show memory.bandwidth",
        &["GiB/s", "typical|Good|predicted|Bad"],
    ),
    question(
        "What does a context switch cost?",
        "fathom explain os.switch.process",
        &["answer", "µs"],
    ),
    question("Which numbers must I ignore?", "fathom show --noisy", &["results noisy", "noisy:"]),
    question(
        "Has anything changed since yesterday?",
        "fathom compare yesterday latest",
        &["changed"],
    ),
    question(
        "What does nginx serve here, and what limits it?",
        "fathom load http://127.0.0.1:8080/ --urls '/f{0..63}' --clients 1..8 --time 12s",
        &["Highest throughput", "limit|saturated"],
    ),
    question("What should I do next?", "fathom show", &["next"]),
    question(
        "Which program is faster?",
        "fathom bench 'grep -c fox big' 'grep -cF fox big'",
        &["faster|slower|no difference"],
    ),
    question("Is this machine throttled?", "fathom doctor", &["throttled"]),
    question("Is the disk slow at night?", "fathom history file.read.latency", &["change"]),
    question("Is there really a neighbour?", "fathom doctor", &["programs", "steal"]),
    question("What does the kernel cost?", "fathom explain os.syscall", &["answer", "ns"]),
    question(
        "Which instance for 2,000 requests/s?",
        "fathom load http://127.0.0.1:8080/ --urls '/f{0..63}' --rate 2000 --time 5s",
        &["sustained", "2000"],
    ),
    question("NFS or the local disk?", "fathom list nfs", &["--folder", "compare"]),
    question(
        "How long does it take to copy 200 GB?",
        "fathom list copy",
        &["100 GB", "the longer of both"],
    ),
    question(
        "Are huge pages worth it?",
        "fathom explain memory.latency.tlb_miss",
        &["answer", "ns"],
    ),
    question("Is io_uring worth it?", "fathom list io_uring", &["--way ring"]),
    question("Which of three VMs is the best?", "fathom compare vm-a vm-b vm-c", &["vm-a", "best"]),
];

/// A question's screen, and how its command ended.
struct Screen {
    question: &'static Question,
    text: String,
    status: Option<i32>,
}

/// The machine of a round of questions.
struct Round {
    name: &'static str,
    /// What the last quick run says of the core.
    core: String,
    screens: Vec<Screen>,
}

/// Asks all questions twice and writes the page; true if its criteria are met.
pub(crate) fn run(root: &Path, program: &str) -> Result<bool> {
    let program = std::fs::canonicalize(program).with_context(|| program.to_owned())?;
    let quiet = ask_all("as it is", &program)?;
    let neighbours = neighbours(1.0, false)?;
    let busy = ask_all("with a busy program on each CPU", &program);
    for mut neighbour in neighbours {
        neighbour.kill()?;
        neighbour.wait()?;
    }
    let rounds = [quiet, busy?];
    let origin = EvidenceOrigin::here(root);
    let contents = EvidenceContents {
        parameters: &[],
        origins: &[("", &origin)],
        criteria: &criteria(&rounds),
        body: &body(&rounds),
    };
    let missed = QUESTIONS.write(root, &contents).context(QUESTIONS.path())?;
    missed.iter().for_each(|missed| println!("{missed}"));
    Ok(missed.is_empty())
}

/// A program on each CPU that this one may use, which is busy for a share of the time: of every
/// 20 ms, or in spells of a second.
pub(crate) fn neighbours(share: f64, in_spells: bool) -> Result<Vec<Child>> {
    let program = std::env::current_exe()?;
    let busy = |cpu: u32| {
        let words = [cpu.to_string(), "0".to_owned(), share.to_string(), in_spells.to_string()];
        Ok(Command::new(&program).arg(sabotage::NEIGHBOUR).args(words).spawn()?)
    };
    fathom_measure::affinity::allowed().into_iter().map(busy).collect()
}

fn ask_all(name: &'static str, program: &Path) -> Result<Round> {
    let folder = tempfile::tempdir_in("/var/tmp")?;
    let shell = |command: &str| {
        let folder = folder.path();
        let programs = program.parent().unwrap_or(folder).display();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("{{ {command}\n}} 2>&1")]).current_dir(folder);
        shell.env("HOME", folder).env("XDG_DATA_HOME", folder.join("data"));
        shell.env("PATH", format!("{programs}:{path}")).env("COLUMNS", COLUMNS.to_string());
        shell.env_remove("FATHOM_STORE").stdin(Stdio::null());
        shell
    };
    for command in MEASURED {
        println!("{name}: {command}");
        let output = shell(command).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "{command}: {}: {text}", output.status);
    }
    let mut server = match nginx::command(folder.path(), NGINX) {
        Ok(mut command) => Some(Running::start(&mut command)?),
        // Its questions are then answered by an error.
        Err(why) if why.is::<Unmet>() => None,
        Err(why) => return Err(why),
    };
    if let Some(server) = &mut server {
        nginx::await_start(folder.path(), server)?;
    }
    let ask = |question: &'static Question| {
        println!("{name}: {}", question.command);
        let output = shell(question.command).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(Screen { question, text, status: output.status.code() })
    };
    let screens = ALL.iter().map(ask).collect::<Result<_>>()?;
    let shown = shell("fathom show").output()?;
    let core = String::from_utf8_lossy(&shown.stdout).lines().find_map(core_of).unwrap_or_default();
    Ok(Round { name, core, screens })
}

fn core_of(line: &str) -> Option<String> {
    let words = ["ore to itself", "ore shared", "easured on a"];
    let at = words.iter().find_map(|words| line.find(words))? - 1;
    Some(line[at..].trim_end_matches('.').to_owned())
}

fn criteria(rounds: &[Round]) -> Vec<Criterion> {
    let of_round = |round: &Round| {
        let answered = round.screens.iter().filter(|screen| screen.is_answered()).count();
        Criterion::new(
            format!(
                "{}: of {} questions at least {ANSWERED_MIN} show the words of their answer in \
                 {ROWS} rows: {answered}",
                round.name,
                ALL.len()
            ),
            answered >= ANSWERED_MIN,
        )
    };
    let is_narrow = |screen: &Screen| {
        // A message of standard error is one line.
        let mut rows = screen.text.lines().filter(|row| !row.starts_with("fathom: "));
        rows.all(|row| row.chars().count() <= COLUMNS)
    };
    let wide = rounds.iter().flat_map(|round| &round.screens).filter(|it| !is_narrow(it)).count();
    let mut criteria: Vec<_> = rounds.iter().map(of_round).collect();
    criteria
        .push(Criterion::new(format!("Screens wider than {COLUMNS} columns: {wide}"), wide == 0));
    criteria
}

fn body(rounds: &[Round]) -> String {
    let mut text = format!(
        "Each question has the first command that somebody would type, and the first {ROWS} rows \
         that it prints. Whether a screen answers rightly is for a reader to judge; the criteria \
         ask only whether the words of an answer are there.\n"
    );
    for round in rounds {
        text += &format!("\n## This machine {}\n\nThe core: {}.\n", round.name, round.core);
        for (number, screen) in round.screens.iter().enumerate() {
            let first: Vec<&str> = screen.text.lines().take(ROWS).collect();
            let status = screen.status.map_or("a signal".to_owned(), |it| it.to_string());
            text += &format!(
                "\n### {}. {}\n\n`{}` (exit status {status}, {} rows)\n\n```text\n{}\n```\n",
                number + 1,
                screen.question.asks,
                screen.question.command,
                screen.text.lines().count(),
                first.join("\n")
            );
        }
    }
    text
}

impl Screen {
    fn is_answered(&self) -> bool {
        let rows: Vec<&str> = self.text.lines().take(ROWS).collect();
        let has = |word: &str| rows.iter().any(|row| row.contains(word));
        self.status.is_some_and(|it| ANSWERS.contains(&it))
            && self.question.answer.iter().all(|words| words.split('|').any(has))
    }
}
