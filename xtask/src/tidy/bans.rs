//! What must not be written at all, or only in one place, each with what to write instead.

use super::File;
use super::code::{Code, words};

/// A name that only certain files may use.
struct Ban {
    name: &'static str,
    /// Beginnings of the paths where it is at home; none: nowhere.
    home: &'static [&'static str],
    remedy: &'static str,
}

/// Where the machine's clocks may be read.
const CLOCKS: &[&str] = &[
    "crates/measure/src/clock",
    "crates/measure/src/disturbance",
    "crates/measure/src/host",
    "crates/measure/tests/",
];

/// Where clock_gettime may be called: there, and where it is itself what is measured.
const CLOCK_CALLS: &[&str] = &[
    "crates/measure/src/clock",
    "crates/measure/src/disturbance",
    "crates/measure/src/host",
    "crates/measure/tests/",
    "crates/probes/src/os/vdso.rs",
];

/// What is printed is made by `report` and written by the programs.
const PRINTERS: &[&str] =
    &["crates/cli/", "crates/report/", "lab/src/main.rs", "lab/src/sabotage/", "xtask/"];

const READ_THE_CLOCK: &str = "take a `Clock` from fathom-measure, so that a test can script time";
const RETURN_IT: &str = "return it, and let crates/report or crates/cli print";

const BANS: &[Ban] = &[
    Ban { name: "todo!", home: &[], remedy: "write it, or return an error that says so" },
    Ban { name: "dbg!", home: &[], remedy: "remove it" },
    Ban { name: "Instant::now", home: CLOCKS, remedy: READ_THE_CLOCK },
    Ban { name: "clock_gettime", home: CLOCK_CALLS, remedy: READ_THE_CLOCK },
    Ban { name: "_rdtsc", home: CLOCKS, remedy: READ_THE_CLOCK },
    Ban { name: "__rdtscp", home: CLOCKS, remedy: READ_THE_CLOCK },
    Ban {
        name: "SystemTime::now",
        home: &["crates/measure/src/clock"],
        remedy: "ask measure's clock for the wall time",
    },
    Ban { name: "print!", home: PRINTERS, remedy: RETURN_IT },
    Ban { name: "println!", home: PRINTERS, remedy: RETURN_IT },
    Ban { name: "eprint!", home: PRINTERS, remedy: RETURN_IT },
    Ban { name: "eprintln!", home: PRINTERS, remedy: RETURN_IT },
];

/// Beginnings of paths that exist on one machine only. In two parts, or this file would break the
/// rule that it states.
const MACHINE_PATHS: &[(&str, &str)] = &[("/home", "/"), ("/root", "/"), ("/work", "/")];

/// Crates below `report` and `cli`, which alone name the program's commands and options.
const BELOW_REPORT: &[&str] =
    &["record", "analysis", "store", "measure", "metric", "fileio", "engine", "probes"];

/// Lines above an `unsafe` in which its reason may stand.
const SAFETY_LINES: usize = 8;

/// Rules for every text file.
pub(super) fn of_any(file: &File) -> Vec<String> {
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for (folder, slash) in MACHINE_PATHS {
            let path = format!("{folder}{slash}");
            // Within a longer path or an address it is a name like another.
            let begins = |at: usize| {
                let before = line[..at].chars().next_back();
                !before.is_some_and(|c| c.is_alphanumeric() || "_-.~}*".contains(c))
            };
            if line.match_indices(&path).any(|(at, _)| begins(at)) {
                let what = format!("`{path}` is a path of one machine");
                found.push(file.says(index + 1, &what, "use a relative path or `/path/to`"));
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
            if !at_home && !speaks(file, ban) && uses(line, ban.name) {
                let what = format!("`{}` has no place here", ban.name);
                found.push(file.says(index + 1, &what, ban.remedy));
            }
        }
    }
    found.extend(flags(file, code));
    found.extend(attributes(file, code));
    found.extend(untyped_errors(file, code));
    found.extend(unsafe_without_reason(file, code));
    found
}

/// Texts that name a command or an option of the program, where a remedy is data.
fn flags(file: &File, code: &Code) -> Vec<String> {
    let is_below =
        BELOW_REPORT.iter().any(|name| file.path.starts_with(&format!("crates/{name}/src/")));
    // A procedure declares its own options, and names them where it refuses them.
    let text = code.text();
    let is_procedure = file.path.starts_with("crates/probes/src/file/")
        && ["clap::", "ProcedureError"].iter().any(|name| text.contains(name));
    if !is_below || is_procedure {
        return Vec::new();
    }
    let tests = code.lines.iter().position(|line| line.contains("#[cfg(test)]"));
    let lines = code.literals.iter().take(tests.unwrap_or(usize::MAX)).enumerate();
    let named = lines.filter(|(_, text)| begins(text, "--") || begins(text, "fathom "));
    let says = |(index, _)| {
        let what = "a text names a command or an option of the program";
        file.says(index + 1, what, "return a `Remedy`, and word it in crates/report or crates/cli")
    };
    named.map(says).collect()
}

/// Whether a word of a text begins with `start` and goes on with a letter.
fn begins(text: &str, start: &str) -> bool {
    text.match_indices(start).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + start.len()..].chars().next();
        before.is_none_or(|c| !c.is_alphanumeric() && c != '-')
            && after.is_some_and(|c| c.is_ascii_lowercase())
    })
}

/// Whether the file speaks to somebody else than the user: a build script to cargo, a test that
/// cannot run here to whoever runs it.
fn speaks(file: &File, ban: &Ban) -> bool {
    let to_cargo = file.name() == "build.rs" && ban.name == "println!";
    to_cargo || (ban.home == PRINTERS && file.path.contains("/tests/"))
}

/// Whether a line uses a name: a call, a macro or an import, not a longer name.
fn uses(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let part = |c: char| c.is_alphanumeric() || c == '_';
        let before = line[..at].chars().next_back().is_some_and(part);
        let after = line[at + name.len()..].chars().next().is_some_and(part);
        !before && (name.ends_with('!') || !after)
    })
}

/// `#[allow]`, which outlives its cause, and `#[expect]` without a reason.
fn attributes(file: &File, code: &Code) -> Vec<String> {
    let text = code.text();
    let mut found = Vec::new();
    for (at, _) in text.match_indices('#') {
        let rest = text[at + 1..].trim_start_matches('!');
        let Some(inside) = rest.strip_prefix('[') else { continue };
        let line = text[..at].matches('\n').count() + 1;
        let inside = &inside[..inside.find(']').unwrap_or(inside.len())];
        let names = |name: &str| words(inside, name).any(|at| inside[at..].contains('('));
        if names("allow") {
            let what = "`#[allow]` stays when its cause has gone";
            found.push(file.says(line, what, "write `#[expect(lint, reason = \"…\")]`"));
        }
        if names("expect") && words(inside, "reason").next().is_none() {
            let what = "`#[expect]` without a reason";
            found.push(file.says(line, what, "add `reason = \"…\"`"));
        }
    }
    found
}

/// Errors of libraries that are a text: a caller can print one, and tell it from no other.
fn untyped_errors(file: &File, code: &Code) -> Vec<String> {
    let is_program = file.path.starts_with("crates/cli/") || file.path.starts_with("xtask/");
    if is_program || file.path.contains("/tests/") {
        return Vec::new();
    }
    let text = code.text();
    let is_untyped =
        |at: &usize| matches!(arguments(&text[at + "Result".len()..])[..], [_, "String"]);
    let found = words(&text, "Result").filter(is_untyped).map(|at| {
        let line = text[..at].matches('\n').count() + 1;
        file.says(line, "an error of a library is a `String`", "make it a type (thiserror)")
    });
    found.collect()
}

/// The types between the angle brackets that a text begins with.
fn arguments(text: &str) -> Vec<&str> {
    let (mut all, mut begin, mut depth) = (Vec::new(), 1, 0);
    for (at, character) in text.char_indices() {
        match character {
            '<' | '(' | '[' => depth += 1,
            '>' if text[..at].ends_with('-') => {}
            '>' | ')' | ']' => depth -= 1,
            ',' if depth == 1 => {
                all.push(text[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
        if depth == 0 {
            all.extend(text.get(begin..at).map(str::trim));
            break;
        }
    }
    all.retain(|one| !one.is_empty());
    all
}

/// `unsafe` without `// SAFETY:` above it, or `# Safety` in the documentation of a function.
fn unsafe_without_reason(file: &File, code: &Code) -> Vec<String> {
    let text = code.text();
    let mut found = Vec::new();
    for at in words(&text, "unsafe") {
        let rest = text[at + "unsafe".len()..].trim_start();
        let line = text[..at].matches('\n').count();
        let function = rest.find("fn").filter(|end| !rest[..*end].contains(['{', ';', '(']));
        let reach = match function {
            // A type such as `unsafe fn(u64)` asserts nothing.
            Some(end) if rest[end + 2..].trim_start().starts_with('(') => continue,
            Some(_) => usize::MAX,
            // An attribute: `#[unsafe(naked)]`.
            None if rest.starts_with('(') => continue,
            None => SAFETY_LINES,
        };
        if !reason_above(code, line, reach) {
            let what = "`unsafe` without a reason";
            let remedy = "say above it why it holds: `// SAFETY: …` (`# Safety` for a function)";
            found.push(file.says(line + 1, what, remedy));
        }
    }
    found
}

/// Whether a reason stands on line `line` or on the lines above it: `reach` of them, or with
/// `usize::MAX` as far as comments and attributes go.
fn reason_above(code: &Code, line: usize, reach: usize) -> bool {
    for above in 0..=line {
        let comments = &code.comments[line - above];
        if comments.contains("SAFETY:") || comments.contains("# Safety") {
            return true;
        }
        let text = code.lines[line - above].trim();
        let plain = !text.is_empty() && !text.starts_with("#[");
        if above >= reach || (reach == usize::MAX && above > 0 && plain) {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rust(path: &str, text: &str) -> Vec<String> {
        of_rust(&File::new(path, text), &Code::of(text))
    }

    const PROBE: &str = "crates/probes/src/cpu/a.rs";

    #[test]
    fn debug_macros_are_banned_outside_texts() {
        assert!(rust(PROBE, "fn f() { todo!() }")[0].contains("`todo!`"));
        assert!(rust(PROBE, "let x = dbg!(y);")[0].contains("remove it"));
        assert!(rust(PROBE, "// todo!\nlet x = \"dbg!\"; my_todo!();").is_empty());
    }

    #[test]
    fn libraries_name_no_option_and_no_command() {
        for text in ["choose --cpu N", "`fathom run` of it", "(--force)", "fathom show"] {
            let code = format!("let next = \"{text}\";");
            assert!(rust(PROBE, &code)[0].contains("return a `Remedy`"), "{text}");
            for home in ["crates/report/src/remedy.rs", "crates/cli/src/remedy.rs"] {
                assert!(rust(home, &code).is_empty(), "{home}: {text}");
            }
            assert!(rust("crates/peers/src/fio.rs", &code).is_empty(), "{text}");
            let procedure = format!("use clap::Parser;\n{code}");
            assert!(rust("crates/probes/src/file/read.rs", &procedure).is_empty(), "{text}");
            assert_eq!(rust("crates/probes/src/file/state.rs", &code).len(), 1, "{text}");
            assert!(rust(PROBE, &format!("#[cfg(test)]\nmod tests {{\n{code}\n}}")).is_empty());
        }
        for text in ["fathom-lock", "a -- b", "non--zero", "fathom (id 1)", "Fathom runs"] {
            assert!(rust(PROBE, &format!("let text = \"{text}\";")).is_empty(), "{text}");
        }
        assert!(rust(PROBE, "// what `--cpu` chose\nlet x = y--z;").is_empty());
        assert!(rust(PROBE, "let x = r#\"\n--cpu\"#;")[0].contains(":2:"));
    }

    #[test]
    fn the_clock_is_read_in_its_own_files_only() {
        for call in ["Instant::now()", "libc::clock_gettime(x)", "_rdtsc()", "__rdtscp(p)"] {
            assert_eq!(rust(PROBE, call).len(), 1, "{call}");
            assert!(rust("crates/measure/src/clock/tsc.rs", call).is_empty(), "{call}");
            assert!(rust("crates/measure/src/disturbance/mod.rs", call).is_empty(), "{call}");
        }
        let vdso = "crates/probes/src/os/vdso.rs";
        assert!(rust(vdso, "libc::clock_gettime(x)").is_empty());
        assert_eq!(rust(vdso, "Instant::now()").len(), 1);
        assert_eq!(rust("crates/measure/src/host/mod.rs", "SystemTime::now()").len(), 1);
        assert!(rust("crates/measure/src/clock.rs", "SystemTime::now()").is_empty());
        assert!(rust(PROBE, "let instant: Instant = clock_gettime_name();").is_empty());
    }

    #[test]
    fn only_programs_and_the_report_print() {
        for call in ["println!(\"x\")", "eprintln!()", "print!(\"x\")", "eprint!(\"x\")"] {
            assert_eq!(rust(PROBE, call).len(), 1, "{call}");
            assert!(rust("crates/cli/src/main.rs", call).is_empty());
            assert!(rust("crates/report/src/terminal.rs", call).is_empty());
            assert!(rust("xtask/src/main.rs", call).is_empty());
            assert!(rust("lab/src/sabotage/mod.rs", call).is_empty());
            assert_eq!(rust("lab/src/mounts.rs", call).len(), 1, "{call}");
        }
        assert!(rust("crates/store/build.rs", "println!(\"cargo:x\")").is_empty());
        assert_eq!(rust("crates/store/build.rs", "eprintln!()").len(), 1);
        assert!(
            rust("crates/measure/tests/quota.rs", "eprintln!(\"no cgroup: skipped\")").is_empty()
        );
        assert_eq!(rust("crates/measure/tests/quota.rs", "dbg!(x)").len(), 1);
    }

    #[test]
    fn a_lint_is_expected_with_a_reason_never_allowed() {
        assert!(rust(PROBE, "#[allow(dead_code)]")[0].contains("expect(lint"));
        assert!(rust(PROBE, "#![allow(\n    dead_code\n)]")[0].contains(":1:"));
        assert!(rust(PROBE, "#[cfg_attr(x, allow(y))]").len() == 1);
        assert!(rust(PROBE, "#[expect(dead_code)]")[0].contains("reason"));
        assert!(rust(PROBE, "#[expect(dead_code, reason = \"later\")]").is_empty());
        assert!(rust(PROBE, "#[derive(Debug)] struct Allowed(u8);").is_empty());
    }

    #[test]
    fn errors_of_libraries_are_types() {
        for text in [
            "fn f() -> Result<(), String> {}",
            "type T = Option<Result<Result<u8, String>, E>>;",
            "type P = Box<dyn Fn() -> Result<Box<dyn Fn(&str) -> [u8; 2]>, String>>;",
            "fn f() -> std::result::Result<\n    (u8, Vec<u8>),\n    String,\n> {}",
        ] {
            let found = rust(PROBE, text);
            assert!(found.len() == 1 && found[0].contains("thiserror"), "{text}: {found:?}");
            assert!(rust("crates/cli/src/main.rs", text).is_empty());
            assert!(rust("crates/store/tests/faults.rs", text).is_empty());
        }
        for text in
            ["Result<String, E>", "Result<(u8, String), E>", "Result<String>", "Result<>", "Result"]
        {
            assert!(rust("lab/src/group.rs", text).is_empty(), "{text}");
        }
    }

    #[test]
    fn unsafe_says_why_it_holds() {
        let found = rust(PROBE, "fn f() {\n    unsafe { g() }\n}");
        assert!(found[0].contains(":2: `unsafe` without a reason"), "{found:?}");
        assert!(rust(PROBE, "// SAFETY: g needs nothing.\nlet x = unsafe { g() };").is_empty());
        assert!(rust(PROBE, "unsafe { g() } // SAFETY: g needs nothing.").is_empty());
        assert_eq!(rust(PROBE, "unsafe impl Send for X {}").len(), 1);
        assert_eq!(rust(PROBE, "pub unsafe fn f() {}").len(), 1);
        let documented = "/// # Safety\n/// The page is mapped.\n#[inline]\npub unsafe fn f() {}";
        assert!(rust(PROBE, documented).is_empty());
        assert!(rust(PROBE, "type F = unsafe fn(u64);\n#![forbid(unsafe_code)]").is_empty());
        assert!(rust(PROBE, "type F = unsafe extern \"C\" fn(u64);").is_empty());
    }

    #[test]
    fn a_reason_belongs_to_the_nearest_unsafe_only() {
        let far = format!("// SAFETY: the first.\n{}unsafe {{ g() }}", "x();\n".repeat(9));
        assert_eq!(rust(PROBE, &far).len(), 1);
        let other = "// SAFETY: the first.\nfn a() {}\npub unsafe fn f() {}";
        assert_eq!(rust(PROBE, other).len(), 1);
    }

    #[test]
    fn paths_of_one_machine_are_refused_in_every_text() {
        let text = |path: &str| of_any(&File::new("README.md", path));
        for folder in ["home", "root", "work"] {
            assert_eq!(text(&format!("cd /{folder}/me")).len(), 1, "{folder}");
            assert!(text(&format!("https://a.b/{folder}/c and x/{folder}/y")).is_empty());
        }
        assert!(text("a /homepage and /worker/").is_empty());
    }
}
