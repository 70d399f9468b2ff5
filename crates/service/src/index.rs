//! The page of a folder, for people.

use std::fmt::Write as _;
use std::fs::File;

use fathom_record::is_hidden;
use rustix::fs::{AtFlags, Dir, FileType, statat};
use rustix::io::Errno;

use crate::root::Root;
use crate::target::{CONTROL, encode};
use crate::ticket::IsOver;

const ENTRIES_MAX: usize = 10_000;
const PAGE_BYTES_MAX: usize = 4 << 20;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct IndexEntry {
    name: Vec<u8>,
    is_folder: bool,
    bytes: u64,
}

/// The entries of a folder as HTML, sorted by name.
pub(crate) fn listing_of(
    root: &Root,
    folder: &File,
    path: &[u8],
    is_over: IsOver<'_>,
) -> Result<String, Errno> {
    let mut entries = Vec::new();
    let mut is_truncated = false;
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        // The service's own resources hide what has their name.
        if name == b"." || name == b".." || (path.is_empty() && name == CONTROL) {
            continue;
        }
        if entries.len() == ENTRIES_MAX || is_over() {
            is_truncated = true;
            break;
        }
        // It may have been deleted meanwhile.
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let Ok(mut stat) = statat(folder, entry.file_name(), flags) else { continue };
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            // What cannot be got is not shown, nor is its size.
            match root.stat(&[path, name].concat()) {
                Some(target) => stat = target,
                None => continue,
            }
        }
        let is_folder = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => true,
            FileType::RegularFile => false,
            _ => continue,
        };
        entries.push(IndexEntry { name: name.to_vec(), is_folder, bytes: stat.st_size as u64 });
    }
    entries.sort();
    Ok(html(path, &entries, is_truncated))
}

fn html(path: &[u8], entries: &[IndexEntry], is_truncated: bool) -> String {
    let title = escape(&format!("/{}", String::from_utf8_lossy(path)));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <style>body{{font-family:sans-serif}}td{{padding:0 1em 0 0}}\
         td+td{{text-align:right}}</style></head>\n<body><h1>{title}</h1>\n<table>\n"
    );
    if !path.is_empty() {
        page += "<tr><td><a href=\"../\">../</a></td><td></td></tr>\n";
    }
    let mut shown = 0;
    for IndexEntry { name, is_folder, bytes } in entries {
        if page.len() >= PAGE_BYTES_MAX {
            break;
        }
        shown += 1;
        let slash = if *is_folder { "/" } else { "" };
        let size = if *is_folder { String::new() } else { bytes.to_string() };
        // `./` so that a name with a colon is no scheme.
        let (link, name) = (encode(name), escape(&String::from_utf8_lossy(name)));
        // Writing to a String cannot fail.
        let _ = writeln!(
            page,
            "<tr><td><a href=\"./{link}{slash}\">{name}{slash}</a></td><td>{size}</td></tr>"
        );
    }
    page += "</table>\n";
    if is_truncated || shown < entries.len() {
        let _ = writeln!(page, "<p>The first {shown} entries; there are more.</p>");
    }
    page + "</body></html>\n"
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            // Clients print the page on terminals.
            _ if is_hidden(character) => escaped += &fathom_record::escape(character),
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_links_encoded() {
        let entry =
            |name: &[u8], is_folder| IndexEntry { name: name.to_vec(), is_folder, bytes: 5 };
        let entries = [entry(b"<b>&\"'.txt", false), entry(b"a b:c", true)];
        let page = html(b"x<y/", &entries, true);
        assert!(page.contains("<title>/x&lt;y/</title>"), "{page}");
        let file = "<a href=\"./%3Cb%3E%26%22%27.txt\">&lt;b&gt;&amp;&quot;&#39;.txt</a></td><td>5";
        assert!(page.contains(file), "{page}");
        assert!(page.contains("<a href=\"./a%20b%3Ac/\">a b:c/</a></td><td></td>"), "{page}");
        assert!(
            page.contains("<a href=\"../\">") && page.contains("The first 2 entries;"),
            "{page}"
        );
        assert!(!html(b"", &[], false).contains("../"));
        let page = html(b"", &[entry("a\u{1b}[31m\u{202e}b\u{9b}".as_bytes(), false)], false);
        assert!(page.contains(r">a\u001b[31m\u202eb\u009b</a>"), "{page}");
    }

    #[test]
    fn page_of_long_names_ends_before_it_is_too_large() {
        let name = |number: usize| format!("{number:0>6}{}", "&".repeat(249)).into_bytes();
        let entry = |number| IndexEntry { name: name(number), is_folder: false, bytes: 1 };
        let entries: Vec<IndexEntry> = (0..ENTRIES_MAX).map(entry).collect();
        let page = html(b"", &entries, false);
        assert!(page.len() < PAGE_BYTES_MAX + 4096, "{}", page.len());
        let shown = page.matches("<tr>").count();
        assert!(shown < ENTRIES_MAX && page.contains(&format!("<p>The first {shown} entries;")));
    }

    #[test]
    fn links_out_of_the_folder_and_to_the_service_are_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("shared");
        std::fs::create_dir_all(inside.join(".fathom")).unwrap();
        std::fs::write(inside.join("file"), "12345").unwrap();
        std::fs::write(folder.path().join("secret"), "1234567").unwrap();
        for (target, name) in
            [("file", "own"), (".fathom", "ctl"), ("../secret", "out"), ("no", "none")]
        {
            std::os::unix::fs::symlink(target, inside.join(name)).unwrap();
        }
        let root = Root::open(&inside).unwrap();
        let page = listing_of(&root, &File::open(&inside).unwrap(), b"", &|| false).unwrap();
        let names: Vec<&str> = page.split("href=\"./").skip(1).map(|it| &it[..3]).collect();
        assert_eq!(names, ["fil", "own"], "{page}");
        assert_eq!(page.matches("<td>5</td>").count(), 2, "{page}");
    }
}
