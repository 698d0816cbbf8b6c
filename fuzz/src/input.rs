//! How an input is laid out: a byte of formats, a byte of options, four sizes of chunks, then the data.

use tollgate_types::Format;

/// Bytes before the data.
pub const HEADER: usize = 6;

/// A fuzzer's input, taken apart.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Which formats, or which kind of a case.
    pub formats: u8,
    /// What is chosen besides, by bits.
    options: u8,
    /// Sizes of chunks, less one.
    pub sizes: [u8; 4],
    /// The bytes that the gateway reads.
    pub data: &'a [u8],
}

impl<'a> Input<'a> {
    /// Takes an input apart; `None` if it is too short.
    pub fn of(input: &'a [u8]) -> Option<Self> {
        let (header, data) = input.split_first_chunk::<HEADER>()?;
        let [formats, options, sizes @ ..] = *header;
        Some(Self {
            formats,
            options,
            sizes,
            data,
        })
    }

    /// One of these formats.
    pub fn format(self, formats: &[Format]) -> Format {
        formats[usize::from(self.formats) % formats.len()]
    }

    /// A client's format, and another one of a provider.
    pub fn formats(self) -> (Format, Format) {
        let clients = Format::OF_CLIENTS;
        let client = self.format(&clients);
        let providers = Format::OF_CONVERSATIONS.into_iter();
        let others: Vec<_> = providers.filter(|it| *it != client).collect();
        let other = usize::from(self.formats) / clients.len() % others.len();
        (client, others[other])
    }

    /// One of the choices that the options make.
    pub fn chooses(self, bit: u32) -> bool {
        self.options >> bit & 1 == 1
    }

    /// The same choices for other data.
    pub const fn with<'b>(self, data: &'b [u8]) -> Input<'b>
    where
        'a: 'b,
    {
        Input { data, ..self }
    }

    /// The data in chunks of the four sizes in turn, each of 1 to 256 bytes.
    pub fn chunks(self) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = self.data;
        let mut sizes = self.sizes.into_iter().cycle();
        std::iter::from_fn(move || {
            let size = usize::from(sizes.next()?) + 1;
            let (chunk, after) = rest.split_at(size.min(rest.len()));
            rest = after;
            (!chunk.is_empty()).then_some(chunk)
        })
    }
}

/// Whether `part` is `whole` with some bytes left out.
pub fn is_left_of(part: &[u8], whole: &[u8]) -> bool {
    let mut rest = whole.iter();
    part.iter().all(|byte| rest.any(|other| other == byte))
}

/// Whether a string may have an escaped surrogate without its partner: the gateway passes it on,
/// since it is JSON (RFC 8259, section 8.2), but `serde_json` refuses it.
pub fn has_surrogates(json: &[u8]) -> bool {
    let mut triples = json.windows(3);
    triples.any(|it| it.eq_ignore_ascii_case(b"\\ud"))
}
