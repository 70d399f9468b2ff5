//! From the bytes of a file to text: compressed ones, and those of Windows.

use std::io::{self, Read as _};

use flate2::read::MultiGzDecoder;

/// The bytes of UTF-8, at most this many, and why there are no more of a damaged file. Of the
/// beginning of a file it is the beginning.
pub fn decoded(bytes: Vec<u8>, most: u64) -> (Vec<u8>, io::Result<()>) {
    let (mut bytes, mut whole) = (bytes, Ok(()));
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut all = Vec::new();
        whole = MultiGzDecoder::new(&*bytes).take(most).read_to_end(&mut all).map(|_| ());
        bytes = all;
    }
    let pair: fn([u8; 2]) -> u16 = match *bytes.as_slice() {
        [0xef, 0xbb, 0xbf, ..] => return (bytes.split_off(3), whole),
        // As PowerShell redirects.
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => return (bytes, whole),
    };
    let units = bytes[2..].chunks_exact(2).map(|two| pair([two[0], two[1]]));
    let chars = char::decode_utf16(units).map(|it| it.unwrap_or(char::REPLACEMENT_CHARACTER));
    (chars.collect::<String>().into_bytes(), whole)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn compressed_and_other_encodings_are_text() {
        let text = "{\"ü\": 1}\n";
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(text.as_bytes()).expect("memory");
        let gz = gz.finish().expect("memory");
        let utf16 = |bytes: fn(u16) -> [u8; 2]| {
            "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(bytes).collect()
        };
        let bom = format!("\u{feff}{text}").into_bytes();
        for bytes in [bom, utf16(u16::to_le_bytes), utf16(u16::to_be_bytes), gz.clone()] {
            let (found, whole) = decoded(bytes, 1_000);
            assert!(found == text.as_bytes() && whole.is_ok());
        }
        assert_eq!(decoded(gz.clone(), 4).0, text.as_bytes()[..4]);
        assert!(decoded(gz[..gz.len() - 9].to_vec(), 1_000).1.is_err());
    }
}
