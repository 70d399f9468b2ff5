//! Content-Type by extension.

pub(crate) const UNKNOWN: &str = "application/octet-stream";
pub(crate) const HTML: &str = "text/html; charset=utf-8";
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
pub(crate) const JSON: &str = "application/json";
pub(crate) use fathom_record::openmetrics::MEDIA_TYPE as OPENMETRICS;

const KNOWN: &[(&str, &str)] = &[
    ("avif", "image/avif"),
    ("bz2", "application/x-bzip2"),
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("htm", HTML),
    ("html", HTML),
    ("ico", "image/x-icon"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", JSON),
    ("jsonl", "application/jsonl"),
    ("log", TEXT),
    ("md", "text/markdown; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("mkv", "video/matroska"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("ogg", "audio/ogg"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("txt", TEXT),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("webm", "video/webm"),
    ("webp", "image/webp"),
    ("woff2", "font/woff2"),
    ("xml", "application/xml"),
    ("xz", "application/x-xz"),
    ("zip", "application/zip"),
    ("zst", "application/zstd"),
];

pub(crate) fn media_type_of(path: &[u8]) -> &'static str {
    let name = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
    let extension = match name.iter().rposition(|&b| b == b'.') {
        Some(at) if at > 0 => &name[at + 1..],
        _ => return UNKNOWN,
    };
    let is_it = |(known, _): &&(&str, &str)| known.as_bytes().eq_ignore_ascii_case(extension);
    KNOWN.iter().find(is_it).map_or(UNKNOWN, |(_, media)| media)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extension_decides() {
        for (path, media) in [
            ("a/b.HTML", HTML),
            ("a.tar.gz", "application/gzip"),
            (".html", UNKNOWN),
            ("a.html/b", UNKNOWN),
            ("a.", UNKNOWN),
            ("", UNKNOWN),
        ] {
            assert_eq!(media_type_of(path.as_bytes()), media, "{path}");
        }
    }
}
