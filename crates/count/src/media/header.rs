//! How large an image is, by the first bytes of its file: PNG, GIF, JPEG and WebP, read
//! through base64 a few bytes at a time wherever they stand.

use super::Size;

/// Segments of a JPEG file to skip at most, looking for the frame.
const MAX_SEGMENTS: usize = 512;

/// The size of an image in base64; `None` where it is no format known here, or broken.
pub(crate) fn size_of_image(base64: &str) -> Option<Size> {
    let file = File(base64.as_bytes());
    let start = file.read::<12>(0)?;
    match start {
        [0x89, b'P', b'N', b'G', ..] => {
            let [w0, w1, w2, w3, h0, h1, h2, h3] = file.read(16)?;
            sized(
                u32::from_be_bytes([w0, w1, w2, w3]),
                u32::from_be_bytes([h0, h1, h2, h3]),
            )
        }
        [b'G', b'I', b'F', b'8', _, _, w0, w1, h0, h1, ..] => sized(
            u16::from_le_bytes([w0, w1]).into(),
            u16::from_le_bytes([h0, h1]).into(),
        ),
        [0xff, 0xd8, 0xff, ..] => jpeg(file),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P'] => webp(file),
        _ => None,
    }
}

/// Whether a text can be base64, by its first bytes.
pub(crate) fn is_base64(text: &str) -> bool {
    let start = text.as_bytes().iter().take(64);
    !text.is_empty()
        && start
            .clone()
            .all(|byte| digit(*byte).is_some() || *byte == b'=')
}

fn sized(width: u32, height: u32) -> Option<Size> {
    (width > 0 && height > 0).then_some(Size { width, height })
}

/// Goes from segment to segment to the frame header, which may stand behind a thumbnail.
fn jpeg(file: File<'_>) -> Option<Size> {
    let mut at = 2;
    for _ in 0..MAX_SEGMENTS {
        let [mark, kind, l0, l1] = file.read(at)?;
        if mark != 0xff {
            return None;
        }
        match kind {
            // Padding before a marker.
            0xff => at += 1,
            // Markers without a length.
            0x01 | 0xd0..=0xd8 => at += 2,
            // Frame headers; the gaps between them are tables.
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                let [h0, h1, w0, w1] = file.read(at.checked_add(5)?)?;
                let (width, height) = (u16::from_be_bytes([w0, w1]), u16::from_be_bytes([h0, h1]));
                return sized(width.into(), height.into());
            }
            _ => {
                let length = u16::from_be_bytes([l0, l1]).max(2);
                at = at.checked_add(2)?.checked_add(length.into())?;
            }
        }
    }
    None
}

fn webp(file: File<'_>) -> Option<Size> {
    const SIDE: u16 = 0x3fff;
    match &file.read::<4>(12)? {
        b"VP8 " => {
            let [w0, w1, h0, h1] = file.read(26)?;
            sized(
                (u16::from_le_bytes([w0, w1]) & SIDE).into(),
                (u16::from_le_bytes([h0, h1]) & SIDE).into(),
            )
        }
        b"VP8L" => {
            let bits = u32::from_le_bytes(file.read(21)?);
            let side = u32::from(SIDE);
            sized((bits & side) + 1, ((bits >> 14) & side) + 1)
        }
        b"VP8X" => {
            let [w0, w1, w2, h0, h1, h2] = file.read(24)?;
            sized(
                u32::from_le_bytes([w0, w1, w2, 0]) + 1,
                u32::from_le_bytes([h0, h1, h2, 0]) + 1,
            )
        }
        _ => None,
    }
}

/// A file in base64.
#[derive(Clone, Copy)]
struct File<'a>(&'a [u8]);

impl File<'_> {
    /// `N` bytes from a place of the file.
    fn read<const N: usize>(self, at: usize) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        for (place, byte) in bytes.iter_mut().enumerate() {
            *byte = self.byte(at.checked_add(place)?)?;
        }
        Some(bytes)
    }

    /// Three bytes stand in four digits.
    fn byte(self, at: usize) -> Option<u8> {
        let first = (at / 3).checked_mul(4)?.checked_add(at % 3)?;
        let high = digit(*self.0.get(first)?)?;
        let low = digit(*self.0.get(first.checked_add(1)?)?)?;
        let pair = u16::from(high) << 6 | u16::from(low);
        let shift = match at % 3 {
            0 => 4,
            1 => 2,
            _ => 0,
        };
        let [_, byte] = (pair >> shift).to_be_bytes();
        Some(byte)
    }
}

/// The value of a digit, of the standard alphabet or the one for addresses.
const fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    }
}
