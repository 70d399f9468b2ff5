//! The structure inside each crate, from the paths that its files name, and inside the page, from
//! the imports of its TypeScript: circles between modules, and arrows up, from a file to one above
//! it.
//!
//! An arrow runs from a file to the file that defines what it uses: a name that a module passes on
//! counts for the file it comes from, a glob for its module. No arrow counts from a test. A module
//! and those inside it are one thing: an arrow between files runs between the largest modules that
//! have one of them and not the other.

use std::collections::{BTreeMap, BTreeSet};

use super::File;
use super::code::{Code, words};
use super::mood::{end_of_body, item_after};

/// The package in TypeScript. A folder of it is one thing for the files beside it.
const PAGE: &str = "web";

/// How far a name that is passed on from module to module is followed.
const STEPS_MAX: usize = 8;

/// The structure of a crate, or of the page.
#[derive(Debug)]
pub(crate) struct TidyStructure {
    pub(crate) package: String,
    pub(crate) files: usize,
    /// Lines that are neither empty nor comments, with tests.
    pub(crate) lines: usize,
    /// Each with its files.
    pub(crate) circles: Vec<Vec<String>>,
    /// From, to.
    pub(crate) arrows_up: Vec<(String, String)>,
}

/// Each crate's, and that of the page.
pub(super) fn of_packages(files: &[File]) -> Vec<TidyStructure> {
    let mut packages: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is("rs") || file.is("ts")) {
        let folder = file.path.split_once("/src/").or_else(|| file.path.split_once("/tests/"));
        if let Some((package, _)) = folder {
            packages.entry(package).or_default().push(file);
        }
    }
    packages.into_iter().map(|(package, files)| of_package(package, &files)).collect()
}

/// Neither a crate nor the page has a circle, and thus no arrow up.
pub(super) fn of_sources(files: &[File]) -> Vec<String> {
    let message = |package: &str, circle: &[String]| {
        let (count, first) = (circle.len(), &circle[0]);
        format!(
            "{package}/src/{first}:1: in a circle of {count} files; \
             see `cargo run -p xtask -- structure`, and move what both ends name below both"
        )
    };
    let packages = of_packages(files);
    let circles = packages.iter().flat_map(|one| one.circles.iter().map(move |it| (one, it)));
    circles.map(|(one, circle)| message(&one.package, circle)).collect()
}

fn of_package(package: &str, files: &[&File]) -> TidyStructure {
    let prefix = format!("{package}/src/");
    let mut lines = 0;
    let folder = |name: &str| Module { file: format!("{name}/"), ..Module::default() };
    let mut modules = BTreeMap::new();
    if package == PAGE {
        modules.insert(Vec::new(), folder("."));
    }
    for file in files {
        let code =
            if package == PAGE { typescript(&file.text) } else { Code::from_text(&file.text) };
        lines += code.lines.iter().filter(|line| !line.trim().is_empty()).count();
        let Some(path) = file.path.strip_prefix(&prefix) else { continue };
        if package == PAGE {
            for (end, _) in path.match_indices('/') {
                modules.entry(module_path(&path[..end])).or_insert(folder(&path[..end]));
            }
            modules.insert(module_path(path), Module::importing(path, &code));
        } else if !is_of_tests(&file.path) {
            modules.insert(module_path(path), Module::new(path, &code));
        }
    }
    let count = modules.values().filter(|module| !module.file.ends_with('/')).count();
    let arrows = arrows(&modules);
    let names: Vec<&Vec<String>> = modules.keys().collect();
    let number = |path: &[String]| names.binary_search_by(|it| it.as_slice().cmp(path)).ok();
    let mut between = vec![BTreeSet::new(); names.len()];
    for (from, to) in &arrows {
        let apart = from.iter().zip(to).take_while(|(a, b)| a == b).count() + 1;
        let ends = number(&from[..apart.min(from.len())]).zip(number(&to[..apart.min(to.len())]));
        if let Some((start, end)) = ends {
            between[start].insert(end);
        }
    }
    let circles = circles(&between);
    let name = |at: &usize| modules[names[*at]].file.clone();
    let mut arrows_up = Vec::new();
    for (above, below) in circles.iter().flat_map(|circle| against(circle, &between)) {
        let is_it = |(from, to): &&(Vec<String>, Vec<String>)| {
            from.starts_with(names[above]) && to.starts_with(names[below])
        };
        let file = |path: &Vec<String>| modules[path].file.clone();
        arrows_up.extend(arrows.iter().filter(is_it).map(|(from, to)| (file(from), file(to))));
    }
    let circles = circles.iter().map(|circle| circle.iter().map(name).collect()).collect();
    TidyStructure { package: package.to_owned(), files: count, lines, circles, arrows_up }
}

fn is_of_tests(path: &str) -> bool {
    let parts: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
    parts.iter().any(|part| *part == "tests" || *part == "fuzz" || part.ends_with("_tests"))
}

#[derive(Debug, Default)]
struct Module {
    file: String,
    /// The paths that it uses, each from `crate`, `self`, `super` or a module of its own.
    paths: Vec<Vec<String>>,
    /// What its `use` statements name: the last part, and the path.
    used: BTreeMap<String, Vec<String>>,
}

impl Module {
    fn new(file: &str, code: &Code) -> Self {
        let text = without_tests(code);
        let mut module = Self { file: file.to_owned(), paths: Vec::new(), used: BTreeMap::new() };
        module.paths = paths_in_code(&text);
        let mut own: Vec<String> = vec!["crate".into(), "self".into(), "super".into()];
        for at in words(&text, "mod") {
            let name = text[at + "mod".len()..].split([';', '{']).next().unwrap_or_default();
            own.push(name.trim().to_owned());
        }
        for at in words(&text, "use") {
            let statement = text[at + "use".len()..].split(';').next().unwrap_or_default();
            let mut paths = Vec::new();
            expand(statement, &[], &mut paths);
            for (name, path) in paths {
                if path.first().is_some_and(|first| own.contains(first)) {
                    module.used.insert(name, path.clone());
                    module.paths.push(path);
                }
            }
        }
        module
    }

    /// What TypeScript imports, types too: `../cells` in a folder is `super::super::cells.ts`.
    fn importing(file: &str, code: &Code) -> Self {
        let text = code.text();
        let pieces: Vec<&str> = text.split(['\'', '"']).collect();
        let is_import = |before: &str| {
            ["from", "import", "import("].iter().any(|word| before.trim_end().ends_with(word))
        };
        let imports =
            pieces.windows(2).filter(|pair| is_import(pair[0]) && pair[1].starts_with('.'));
        let path = |name: &str| {
            let path = format!("super/{name}.ts").replace("/./", "/").replace("..", "super");
            path.split('/').map(str::to_owned).collect()
        };
        let paths = imports.map(|pair| path(pair[1])).collect();
        Self { file: file.to_owned(), paths, used: BTreeMap::new() }
    }
}

/// TypeScript without its lines of comments.
fn typescript(text: &str) -> Code {
    let is_comment = |line: &&str| ["/*", "*", "//"].iter().any(|it| line.trim().starts_with(it));
    let lines = text.lines().filter(|line| !is_comment(line)).map(str::to_owned).collect();
    Code { lines, ..Code::default() }
}

/// The code without what is compiled for tests only.
fn without_tests(code: &Code) -> String {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < code.lines.len() {
        let line = code.lines[at].trim_start();
        let is_test = line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(any(test");
        if is_test && let Some(item) = item_after(code, at) {
            let ends = code.lines.iter().skip(at).position(|line| line == item).unwrap_or(0) + at;
            let is_short = item.trim_end().ends_with(';');
            at = if is_short { ends + 1 } else { end_of_body(code, ends) };
        } else {
            kept.push(code.lines[at].as_str());
            at += 1;
        }
    }
    kept.join("\n")
}

/// The paths from the crate or the module around, outside `use` statements: `crate::a::f()`.
fn paths_in_code(text: &str) -> Vec<Vec<String>> {
    let is_of_path = |character: char| character.is_alphanumeric() || "_:".contains(character);
    let starts = words(text, "crate").chain(words(text, "super"));
    let after = starts.filter(|at| {
        let before = text[..*at].rsplit([';', '}']).next().unwrap_or_default();
        words(before, "use").next().is_none()
    });
    let path = |at: usize| text[at..].split(|it| !is_of_path(it)).next().unwrap_or_default();
    after.map(|at| parts(path(at)).collect()).filter(|path: &Vec<String>| path.len() > 1).collect()
}

/// The names and paths of a `use` statement: `a::{b, c as d}` has `b` and `d`.
fn expand(statement: &str, before: &[String], found: &mut Vec<(String, Vec<String>)>) {
    let statement = statement.trim();
    if let Some((head, group)) = statement.split_once('{') {
        let mut path = before.to_vec();
        path.extend(parts(head));
        let group = group.trim_end().strip_suffix('}').unwrap_or(group);
        let mut depth = 0;
        let in_group = |character: char| {
            depth += i32::from(character == '{') - i32::from(character == '}');
            character == ',' && depth == 0
        };
        group.split(in_group).for_each(|one| expand(one, &path, found));
    } else if !statement.is_empty() {
        let (path, alias) = statement.split_once(" as ").unwrap_or((statement, ""));
        let mut whole = before.to_vec();
        whole.extend(parts(path).filter(|part| before.is_empty() || part != "self"));
        let last = if alias.is_empty() { whole.last().cloned() } else { Some(alias.into()) };
        found.push((last.unwrap_or_default().trim().to_owned(), whole));
    }
}

fn parts(path: &str) -> impl Iterator<Item = String> {
    path.split("::").map(|part| part.trim().to_owned()).filter(|part| !part.is_empty())
}

/// `a/b.rs` is `a::b`; `lib.rs` and `main.rs` have no name.
fn module_path(file: &str) -> Vec<String> {
    let mut path: Vec<String> =
        file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if path.len() == 1 && ["lib", "main"].contains(&path[0].as_str()) {
        path.pop();
    }
    path
}

/// From each module to those that define what it names, but for what is inside it or around it.
fn arrows(modules: &BTreeMap<Vec<String>, Module>) -> BTreeSet<(Vec<String>, Vec<String>)> {
    let mut arrows = BTreeSet::new();
    for (own, module) in modules {
        let defined = module.paths.iter().filter_map(|path| place(modules, own, path, STEPS_MAX));
        let others = defined.filter(|place| !place.starts_with(own) && !own.starts_with(place));
        arrows.extend(others.map(|place| (own.clone(), place)));
    }
    arrows
}

/// The module that defines what `path` names in module `own`.
fn place(
    modules: &BTreeMap<Vec<String>, Module>,
    own: &[String],
    path: &[String],
    steps: usize,
) -> Option<Vec<String>> {
    let mut here = own.to_vec();
    let mut at = 0;
    while let Some(part) = path.get(at) {
        match part.as_str() {
            "crate" if at == 0 => here.clear(),
            "self" if at == 0 => {}
            "super" => here.truncate(here.len().saturating_sub(1)),
            _ => break,
        }
        at += 1;
    }
    // A module in braces has the file around it.
    while !modules.contains_key(&here) {
        here.pop()?;
    }
    while let Some(part) = path.get(at) {
        here.push(part.clone());
        if !modules.contains_key(&here) {
            here.pop();
            break;
        }
        at += 1;
    }
    let passed_on = path.get(at).and_then(|name| modules[&here].used.get(name));
    // A private name of the module itself is no path through another.
    match passed_on.filter(|_| steps > 0 && here != own) {
        Some(next) => place(modules, &here, next, steps - 1),
        None => Some(here),
    }
}

/// Sets of files that reach each other, larger ones first.
fn circles(arrows: &[BTreeSet<usize>]) -> Vec<Vec<usize>> {
    let reached: Vec<BTreeSet<usize>> = (0..arrows.len()).map(|from| reach(arrows, from)).collect();
    let mut circles = BTreeSet::new();
    for (from, to) in reached.iter().enumerate() {
        let circle: Vec<usize> =
            to.iter().copied().filter(|other| reached[*other].contains(&from)).collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    let mut circles: Vec<Vec<usize>> = circles.into_iter().collect();
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

fn reach(arrows: &[BTreeSet<usize>], from: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(at) = next.pop() {
        next.extend(arrows[at].iter().copied().filter(|to| reached.insert(*to)));
    }
    reached
}

/// The arrows of a circle against the order of its files that a greedy search finds: files that
/// name many others of the circle, and are named by few, come first.
fn against(circle: &[usize], arrows: &[BTreeSet<usize>]) -> Vec<(usize, usize)> {
    let mut left: Vec<usize> = circle.to_vec();
    let mut order = Vec::new();
    while !left.is_empty() {
        let surplus = |of: usize| {
            let out = left.iter().filter(|to| arrows[of].contains(to)).count();
            let inward = left.iter().filter(|from| arrows[**from].contains(&of)).count();
            (inward == 0, out as i64 - inward as i64)
        };
        let first = left.iter().copied().max_by_key(|of| surplus(*of)).unwrap_or_default();
        left.retain(|other| *other != first);
        order.push(first);
    }
    let mut up = Vec::new();
    for (at, from) in order.iter().enumerate() {
        up.extend(
            order[..at].iter().filter(|to| arrows[*from].contains(to)).map(|to| (*from, *to)),
        );
    }
    up
}

/// The counts of each crate and of the page, their circles and arrows up; the sum is of Rust.
pub(super) fn page(packages: &[TidyStructure]) -> String {
    let mut text =
        format!("{:28}{:>6}{:>9}{:>9}{:>11}\n", "crate", "files", "lines", "circles", "arrows up");
    let mut row = |name: &str, counts: [usize; 4]| {
        let [files, lines, circles, up] = counts;
        text += &format!("{name:28}{files:6}{lines:9}{circles:9}{up:11}\n");
    };
    let counts =
        |one: &TidyStructure| [one.files, one.lines, one.circles.len(), one.arrows_up.len()];
    packages.iter().for_each(|one| row(&one.package, counts(one)));
    let crates = || packages.iter().filter(|one| one.package != PAGE);
    let sum = |at: usize| crates().map(|one| counts(one)[at]).sum();
    row("all crates", [sum(0), sum(1), sum(2), sum(3)]);
    for one in packages.iter().filter(|one| !one.circles.is_empty()) {
        text += &format!("\n{}\n", one.package);
        for files in &one.circles {
            text += &format!("  circle: {}\n", files.join(", "));
        }
        for (from, to) in &one.arrows_up {
            text += &format!("  up: {from} -> {to}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn structure(files: &[(&str, &str)]) -> TidyStructure {
        let path = |name: &str| format!("crates/a/src/{name}");
        let files: Vec<File> =
            files.iter().map(|(name, text)| File::new(path(name), *text)).collect();
        let mut crates = of_packages(&files);
        assert_eq!(crates.len(), 1);
        crates.remove(0)
    }

    #[test]
    fn circle_and_its_arrow_up_are_found() {
        let found = structure(&[
            ("lib.rs", "mod b;\nmod c;\nmod d;\npub use c::C;\npub use d::D;\nstruct A;"),
            ("b.rs", "use crate::{A, C, d::{self, D}};\n"),
            ("c.rs", "use super::D;\nfn f() -> D {}\n"),
            ("d.rs", "// A comment\nuse crate::b::{\n  B,\n};\nuse super::c;\n"),
        ]);
        assert_eq!(found.circles, [["b.rs", "c.rs", "d.rs"]]);
        assert_eq!((found.files, found.lines, found.arrows_up.len()), (4, 13, 2));
    }

    #[test]
    fn passed_on_names_and_tests_make_no_circle() {
        let found = structure(&[
            ("lib.rs", "mod b;\nmod c;\nmod tests;\npub use b::B as Other;\npub use c::C;\n"),
            ("b.rs", "pub struct B;\n#[cfg(test)]\nmod tests {\n  use crate::C;\n}\n"),
            ("c.rs", "use crate::Other;\nuse crate::c::inner::I;\nmod inner;\n"),
            ("c/inner.rs", "#[cfg(test)]\nuse super::C;\nuse crate::Other;\n"),
            ("tests.rs", "use crate::{C, Other};\n"),
        ]);
        assert!(found.circles.is_empty() && found.arrows_up.is_empty(), "{found:?}");
        assert_eq!(found.files, 4);
    }

    #[test]
    fn circle_through_the_inside_of_a_module_is_found() {
        let found = structure(&[
            ("lib.rs", "mod b;\nmod c;\n"),
            ("b.rs", "mod inner;\nuse crate::c::C;\npub use inner::B;\n"),
            ("b/inner.rs", "pub struct B;\n"),
            ("c.rs", "mod inner;\npub struct C;\n"),
            ("c/inner.rs", "use crate::b::B;\n"),
        ]);
        assert_eq!(found.circles, [["b.rs", "c.rs"]]);
        let up = [("c/inner.rs", "b/inner.rs"), ("b.rs", "c.rs")];
        assert!(up.iter().any(|(from, to)| found.arrows_up == [((*from).into(), (*to).into())]));
    }

    #[test]
    fn circles_of_imports_are_refused() {
        let file = |(name, text): (&str, &str)| File::new(format!("web/src/{name}"), text);
        let files = [
            ("main.ts", "import './page.css';\nimport { fleet } from './fleet';\n"),
            ("fleet.ts", "import { draw } from './charts/strip';\nimport * as P from 'plot';\n"),
            ("charts/strip.ts", "/** A\n * b */\n\nimport type {\n  A,\n} from \"../fleet\";\n"),
            ("charts/axes.ts", "const a: import('./marks').Mark = 1;\n"),
            ("charts/marks.ts", "export { b } from './axes';\n"),
        ];
        let files = files.map(file);
        let found = of_packages(&files);
        assert_eq!((found[0].files, found[0].lines, found[0].arrows_up.len()), (5, 9, 2));
        let circles = [["charts/", "fleet.ts"], ["charts/axes.ts", "charts/marks.ts"]];
        assert_eq!(found[0].circles, circles);
        assert!(page(&found).contains("circle: charts/, fleet.ts"));
        assert!(of_sources(&files)[0].starts_with("web/src/charts/:1: in a circle of 2 files;"));
    }
}
