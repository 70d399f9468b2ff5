//! Names and paths that are banned, or allowed in certain files only, each with its remedy.

use super::File;
use super::code::{Code, words};

/// A name that only certain files may use.
struct Ban {
    name: &'static str,
    /// Prefixes of the paths that may use it.
    home: &'static [&'static str],
    remedy: &'static str,
}

/// Files that may read the clock.
const CLOCKS: &[&str] = &[
    "crates/measure/src/clock",
    "crates/measure/src/disturbance",
    "crates/measure/src/host",
    "crates/measure/tests/",
];

/// Files that may call clock_gettime: those, and the probe that measures the call.
const CLOCK_CALLS: &[&str] = &[
    "crates/measure/src/clock",
    "crates/measure/src/disturbance",
    "crates/measure/src/host",
    "crates/measure/tests/",
    "crates/probes/src/os/vdso.rs",
];

const READ_THE_CLOCK: &str = "use a `Clock` from fathom-measure, so that a test can script time";

const BANS: &[Ban] = &[
    Ban { name: "Instant::now", home: CLOCKS, remedy: READ_THE_CLOCK },
    Ban { name: "clock_gettime", home: CLOCK_CALLS, remedy: READ_THE_CLOCK },
    Ban { name: "_rdtsc", home: CLOCKS, remedy: READ_THE_CLOCK },
    Ban { name: "__rdtscp", home: CLOCKS, remedy: READ_THE_CLOCK },
    Ban {
        name: "SystemTime::now",
        home: &["crates/measure/src/clock"],
        remedy: "use the wall time of the clock in fathom-measure",
    },
];

/// Absolute paths that exist on one machine only. In two parts, so that this file passes its own
/// check.
const MACHINE_PATHS: &[(&str, &str)] = &[("/home", "/"), ("/root", "/"), ("/work", "/")];

/// Crates that name commands and options of the program; the simulations are in no program.
const WORDED_IN: &[&str] = &["report", "cli", "simulation"];
/// Who may name options: procedures and services their own, with the command that the path ends
/// with, and the parsers of other programs those of them.
const WITH_OPTIONS: &str = "crates/probes/src/file crates/probes/src/commands crates/bench \
                            crates/load crates/transfer crates/fetch crates/service crates/ui \
                            crates/far/src/process.rs \
                            crates/far/src/protocol/error.rs crates/cost/src/ptrace.rs \
                            crates/peers crates/import crates/trial";
const COMMANDS: &str = "run file load transfer fetch bench doctor list explain show crosscheck \
                        compare fleet report ui serve history check export import store \
                        completions man worker far";

/// Rules for every text file.
pub(super) fn of_any(file: &File) -> Vec<String> {
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for (folder, slash) in MACHINE_PATHS {
            let path = format!("{folder}{slash}");
            // Not within a longer path or an address.
            let begins = |at: usize| {
                let before = line[..at].chars().next_back();
                !before.is_some_and(|c| c.is_alphanumeric() || "_-.~}*".contains(c))
            };
            if line.match_indices(&path).any(|(at, _)| begins(at)) {
                let what = format!("`{path}` is a path of one machine");
                found.push(file.message(index + 1, &what, "use a relative path or `/path/to`"));
            }
        }
    }
    found
}

pub(super) fn of_rust(file: &File, code: &Code) -> Vec<String> {
    let mut found = Vec::new();
    for (index, line) in code.lines.iter().enumerate() {
        for ban in BANS {
            let at_home = ban.home.iter().any(|home| file.path.starts_with(home));
            if !at_home && words(line, ban.name).next().is_some() {
                let what = format!("`{}` is not allowed here", ban.name);
                found.push(file.message(index + 1, &what, ban.remedy));
            }
        }
    }
    found.extend(flags(file, code));
    found
}

/// String literals that name a command or an option of the program in a library.
fn flags(file: &File, code: &Code) -> Vec<String> {
    let library = file.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"));
    let is_exempt = |(name, path): (&str, &str)| {
        // The help of a procedure is in its options.
        WORDED_IN.contains(&name) || path == "options.rs" || path.ends_with("tests.rs")
    };
    if library.is_none_or(is_exempt) {
        return Vec::new();
    }
    let own = WITH_OPTIONS.split(' ').find(|path| file.path.starts_with(path));
    // The commands of `probes` are those of `fathom file`.
    let own = own.map(|path| match path.rsplit('/').next().unwrap_or_default() {
        "commands" => "file",
        "trial" => "doctor",
        name => name,
    });
    let tests = code.lines.iter().position(|line| line.contains("#[cfg(test)]"));
    let lines = code.literals.iter().take(tests.unwrap_or(usize::MAX)).enumerate();
    let is_named = |text: &str| {
        own.is_none() && begins(text, "--").next().is_some()
            || begins(text, "fathom ").any(|after| names_another(after, own))
    };
    let message = |(index, _)| {
        let what = "a library names a command or an option of the program";
        file.message(
            index + 1,
            what,
            "return a `Remedy`, and format it in crates/report or crates/cli",
        )
    };
    lines.filter(|(_, text)| is_named(text)).map(message).collect()
}

/// Whether a text begins with a command that is not the own one. `None` of a library that has none.
fn names_another(text: &str, own: Option<&str>) -> bool {
    let end = text.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(text.len());
    let (command, rest) = text.split_at(end);
    // The name of what is at the other end, unless an option of it follows.
    let is_server = own.is_some() && command == "serve" && !rest.trim_start().starts_with("--");
    COMMANDS.split(' ').any(|known| known == command) && own != Some(command) && !is_server
}

/// The rest of the text behind each `start` that begins a word and has a letter after it.
fn begins<'t>(text: &'t str, start: &'t str) -> impl Iterator<Item = &'t str> {
    text.match_indices(start).filter_map(move |(at, _)| {
        let before = text[..at].chars().next_back();
        let after = &text[at + start.len()..];
        let is_word = before.is_none_or(|c| !c.is_alphanumeric() && c != '-');
        (is_word && after.starts_with(|c: char| c.is_ascii_lowercase())).then_some(after)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rust(path: &str, text: &str) -> Vec<String> {
        of_rust(&File::new(path, text), &Code::from_text(text))
    }

    const PROBE: &str = "crates/probes/src/cpu/a.rs";

    #[test]
    fn options_named_by_libraries_are_reported() {
        for text in ["choose --cpu N", "`fathom run` of it", "(--force)", "fathom show"] {
            let code = format!("let next = \"{text}\";");
            assert!(rust(PROBE, &code)[0].contains("return a `Remedy`"), "{text}");
            for home in ["crates/report/src/remedy.rs", "crates/cli/src/remedy.rs"] {
                assert!(rust(home, &code).is_empty(), "{home}: {text}");
            }
            assert!(rust(PROBE, &format!("#[cfg(test)]\nmod tests {{\n{code}\n}}")).is_empty());
        }
        let load = "crates/load/src/records.rs";
        for (path, text) in [
            ("crates/peers/src/fio.rs", "fio --direct=1"),
            ("crates/probes/src/commands/read.rs", "`fathom file read` has --way direct"),
            (load, "--rate shows it, fathom load"),
            (load, "not `fathom serve`: it has no counters"),
        ] {
            assert!(rust(path, &format!("let text = \"{text}\";")).is_empty(), "{text}");
        }
        for text in ["`fathom serve --cold` evicts", "see fathom show"] {
            assert_eq!(rust(load, &format!("let text = \"{text}\";")).len(), 1, "{text}");
        }
        for text in ["fathom-lock", "a -- b", "non--zero", "fathom (id 1)", "this fathom has"] {
            assert!(rust(PROBE, &format!("let text = \"{text}\";")).is_empty(), "{text}");
        }
        assert!(rust(PROBE, "// what `--cpu` chose\nlet x = y--z;").is_empty());
        assert!(rust(PROBE, "let x = r#\"\n--cpu\"#;")[0].contains(":2:"));
    }

    #[test]
    fn clock_is_read_in_its_own_files_only() {
        for call in ["Instant::now()", "libc::clock_gettime(x)", "_rdtsc()", "__rdtscp(p)"] {
            assert_eq!(rust(PROBE, call).len(), 1, "{call}");
            assert!(rust("crates/measure/src/clock/tsc.rs", call).is_empty(), "{call}");
            assert!(rust("crates/measure/src/disturbance.rs", call).is_empty(), "{call}");
        }
        let vdso = "crates/probes/src/os/vdso.rs";
        assert!(rust(vdso, "libc::clock_gettime(x)").is_empty());
        assert_eq!(rust(vdso, "Instant::now()").len(), 1);
        assert_eq!(rust("crates/measure/src/host.rs", "SystemTime::now()").len(), 1);
        assert!(rust("crates/measure/src/clock.rs", "SystemTime::now()").is_empty());
        assert!(rust(PROBE, "let instant: Instant = clock_gettime_name();").is_empty());
    }

    #[test]
    fn absolute_paths_of_a_machine_are_reported() {
        let text = |path: &str| of_any(&File::new("README.md", path));
        for folder in ["home", "root", "work"] {
            assert_eq!(text(&format!("cd /{folder}/me")).len(), 1, "{folder}");
            assert!(text(&format!("https://a.b/{folder}/c and x/{folder}/y")).is_empty());
        }
        assert!(text("a /homepage and /worker/").is_empty());
    }
}
