//! The name of a file, from the last segment of a URL's path.

use percent_encoding::percent_decode_str;

/// Room for the suffixes of the unfinished file, within the 255 bytes of most file systems.
const BYTES_MAX: usize = 240;

/// # Errors
/// Why the segment is no file name.
pub fn of_path(path: &str) -> Result<String, String> {
    let path = path.split('?').next().unwrap_or_default();
    let segment = path.rsplit('/').next().unwrap_or_default();
    let decoded = percent_decode_str(segment).decode_utf8();
    let name =
        decoded.map_err(|_| format!("file name {segment}: not UTF-8; name it by -o FILE"))?;
    let refused = match name.as_ref() {
        "" => return Err("the URL has no file name; name the file by -o FILE".to_owned()),
        name if name.contains(['/', '\\']) => "it contains a separator",
        name if name.starts_with('.') => "it begins with a dot",
        name if name.chars().any(char::is_control) => "it contains a control character",
        name if name.len() > BYTES_MAX => "it is longer than 240 bytes",
        name => return Ok(name.to_owned()),
    };
    Err(format!("file name {segment}: {refused}; name the file by -o FILE"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_the_last_segment_decoded() {
        for (path, name) in [
            ("/a/b.iso", "b.iso"),
            ("/b.iso?x=/../y", "b.iso"),
            ("/a%20b%2B", "a b+"),
            ("/%C3%BC", "ü"),
            ("/100%", "100%"),
        ] {
            assert_eq!(of_path(path).as_deref(), Ok(name), "{path}");
        }
    }

    #[test]
    fn names_that_leave_the_folder_are_refused() {
        let long = format!("/{}", "a".repeat(241));
        for path in [
            "/", "/a/", "/..", "/.", "/..%2f..", "/%2e%2e", "/.bashrc", "/a%00b", "/a%0Ab",
            "/%2Fetc", "/a%5Cb", "/%1b[2J", "/%ff", &long,
        ] {
            assert!(of_path(path).is_err(), "{path}");
        }
    }
}
