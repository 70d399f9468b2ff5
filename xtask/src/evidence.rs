//! Every page in docs/evidence has a maker, and its head names that maker's command.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use fathom_lab::evidence::{EvidencePage, FIELDS, FOLDER, PAGES};

/// What is wrong with pages, by their names.
fn problems(pages: &BTreeMap<String, String>, makefile: &str) -> Vec<String> {
    let mut found = Vec::new();
    for page in PAGES {
        match pages.get(page.name) {
            Some(text) => found.extend(of_page(page, text, makefile)),
            None => found.push(format!("{} is missing; run `{}`", page.path(), page.command)),
        }
    }
    for name in pages.keys().filter(|name| PAGES.iter().all(|page| page.name != name.as_str())) {
        found.push(format!("{FOLDER}/{name} has no maker; add it to PAGES in lab/src/evidence.rs"));
    }
    found
}

fn of_page(page: &EvidencePage, text: &str, makefile: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    let title = format!("# {}", page.title);
    if lines.next() != Some(&title) || lines.next() != Some("") {
        found.push(format!("the first line is not `{title}`, with an empty one after it"));
    }
    let mut command = "";
    for field in FIELDS {
        let line = lines.next().unwrap_or_default();
        match line.strip_prefix(&format!("- {field}: ")).map(str::trim).unwrap_or_default() {
            "" => found.push(format!("no `{field}` in the head where it belongs: `{line}`")),
            value if field == FIELDS[0] => command = value.trim_matches('`'),
            _ => {}
        }
    }
    found.extend(of_command(page, command, makefile).err());
    let run = format!("; run `{}`", page.command);
    found.into_iter().map(|what| format!("{}: {what}{run}", page.path())).collect()
}

/// Whether a command is the page's, with parameters that the Makefile reads.
fn of_command(page: &EvidencePage, command: &str, makefile: &str) -> Result<(), String> {
    let rest = command.strip_prefix(page.command).filter(|it| it.is_empty() || it.starts_with(' '));
    let rest = rest.ok_or_else(|| format!("`{command}` is not its command"))?;
    let mut words = page.command.split(' ').skip(1);
    let target = words.next().unwrap_or_default();
    let line = makefile.lines().find(|line| line.starts_with(&format!("{target}:")));
    let line = line.ok_or_else(|| format!("the Makefile has no target `{target}`"))?;
    let (_, help) = line.split_once("##").unwrap_or_default();
    if !help.contains(page.name) {
        return Err(format!("the help of the Makefile's `{target}` does not name this page"));
    }
    // A quoted value has spaces.
    let rest = rest.split('\'').step_by(2).collect::<String>();
    for word in words.chain(rest.split_whitespace()) {
        let (name, _) = word.split_once('=').ok_or_else(|| format!("`{word}` is no parameter"))?;
        let is_read = ["$(NAME)", "$(or $(NAME),"]
            .iter()
            .any(|it| makefile.contains(&it.replace("NAME", name)));
        if !is_read {
            return Err(format!("the Makefile reads no `{name}`"));
        }
    }
    Ok(())
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of the project")
}

fn makefile() -> String {
    fs::read_to_string(root().join("Makefile")).unwrap()
}

fn pages() -> BTreeMap<String, String> {
    let page = |entry: fs::DirEntry| {
        let text = fs::read_to_string(entry.path()).unwrap();
        (entry.file_name().into_string().unwrap(), text)
    };
    fs::read_dir(root().join(FOLDER)).unwrap().map(|entry| page(entry.unwrap())).collect()
}

#[test]
fn every_page_has_the_head_of_its_command() {
    assert_eq!(problems(&pages(), &makefile()), [""; 0]);
}

#[test]
fn pages_without_maker_and_makers_without_page_are_found() {
    let mut pages = pages();
    let text = pages.remove("FAULTS.md").unwrap();
    pages.insert("OTHER.md".to_owned(), text);
    let found = problems(&pages, &makefile());
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found[0].starts_with("docs/evidence/FAULTS.md is missing; run `make soak`"));
    assert!(found[1].starts_with("docs/evidence/OTHER.md has no maker"));
}

#[test]
fn wrong_heads_are_found() {
    let (page, good) = (&fathom_lab::evidence::SIMULATION, &pages()["SIMULATION.md"]);
    for (old, new, what) in [
        ("# Sim", "## Sim", "the first line"),
        ("make simulate", "make simulation", "is not its command"),
        ("make simulate", "make simulate WORLD=1", "the Makefile reads no `WORLD`"),
        ("make simulate", "make simulate fast", "`fast` is no parameter"),
        ("make simulate", "make simulate METRICS='a b'", ""),
        ("- Commit: ", "- Commit:\n- ", "no `Commit`"),
        ("- Machine: ", "- On: ", "no `Machine`"),
        ("- Date (UTC): ", "", "no `Date (UTC)`"),
    ] {
        let found = of_page(page, &good.replacen(old, new, 1), &makefile()).join("\n");
        assert!(found.contains(what) && found.is_empty() == what.is_empty(), "{new}: {found}");
    }
    for (old, what) in [("\nsimulate:", "no target"), ("SIMULATION.md", "does not name this page")]
    {
        let found = of_page(page, good, &makefile().replace(old, "\nx")).join("\n");
        assert!(found.contains(what), "{old}: {found}");
    }
}
