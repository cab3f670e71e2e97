//! The folder of pictures: originals by content, and the sizes made of them.

use std::fs;
use std::io::{self, Cursor, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use image::codecs::jpeg::JpegEncoder;
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageReader, Limits};
use spindle_base::id::new_id;
use spindle_base::sync::Mutex;
use tokio::sync::Semaphore;

use crate::error::{LibraryError, Result};
use crate::{Image, ImageFormat};

/// A picture file larger than this is not read.
pub(crate) const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;
/// Pixels on a side that are decoded at most; a 16,384 × 16,384 picture is beyond any camera.
const MAX_SIDE: u32 = 16_384;
/// Bytes that decoding one picture may take: a 64-megapixel photograph at 4 bytes a pixel. The decoders themselves only hold
/// what they allocate besides the pixels to this.
const MAX_DECODE_BYTES: u64 = 256 * 1024 * 1024;
/// Pixels on the longer side of what is kept: a full-HD backdrop.
const KEPT_SIDE: u32 = 1_920;
/// JPEG quality of what is kept and of what is made of it: the second step hides the first.
const KEPT_QUALITY: u8 = 92;
const SIZED_QUALITY: u8 = 85;
/// The sides that are made. A ladder bounds the folder: without one, each pixel width that a
/// client asks for would be a file.
const LADDER: [u32; 10] = [80, 160, 240, 320, 400, 480, 640, 960, 1_280, KEPT_SIDE];

/// What was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) hash: String,
    pub(crate) mime: &'static str,
    pub(crate) width: u32,
    pub(crate) height: u32,
}

/// The folder. Its methods block on the system disk and on decoding.
#[derive(Debug)]
pub(crate) struct Store {
    originals: PathBuf,
    sized: PathBuf,
    /// One decode at a time: a large photograph takes a quarter of a gigabyte while it lasts.
    decoding: Mutex<(), 50>,
    /// One request at a time waits for that on a thread, the others here: their threads are what sign-ins and files are served on.
    making: Arc<Semaphore>,
    /// Pictures that are read at once: each is whole in memory until its answer has a place.
    reading: Semaphore,
}

/// As many as a disk and a few processors have use for.
const READ_AT_ONCE: usize = 8;

impl Store {
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        let (originals, sized) = (folder.join("kept"), folder.join("sized"));
        for dir in [&originals, &sized] {
            fs::create_dir_all(dir).map_err(LibraryError::io("make folder", dir))?;
        }
        Ok(Self {
            originals,
            sized,
            decoding: Mutex::new(()),
            making: Arc::new(Semaphore::new(1)),
            reading: Semaphore::new(READ_AT_ONCE),
        })
    }

    /// Decodes `bytes`, turns the picture upright, keeps it. `name` is for the error text.
    pub(crate) fn keep(&self, bytes: &[u8], name: &str) -> Result<Kept> {
        let _one = self.decoding.lock();
        let picture = decode(bytes, name, KEPT_SIDE, KEPT_SIDE)?;
        let alpha = has_transparency(&picture);
        let (out, mime, ext) = if alpha {
            (encode(&picture, ImageFormat::Png, KEPT_QUALITY, name)?, "image/png", "png")
        } else {
            (encode(&picture, ImageFormat::Jpeg, KEPT_QUALITY, name)?, "image/jpeg", "jpeg")
        };
        let hash = blake3::hash(&out).to_hex()[..32].to_owned();
        write_whole(&self.originals.join(format!("{hash}.{ext}")), &out)?;
        Ok(Kept { hash, mime, width: picture.width(), height: picture.height() })
    }

    /// The kept picture `hash` at `size`, made on first request, on the runtime's blocking threads.
    pub(crate) async fn give(
        self: &Arc<Self>,
        hash: String,
        size: (u32, u32),
        format: ImageFormat,
    ) -> Result<Image> {
        let panicked = |e: tokio::task::JoinError| LibraryError::Panicked(e.to_string());
        let (store, wanted) = (Arc::clone(self), hash.clone());
        // Never closed: an error would be a turn for everybody.
        let reads = self.reading.acquire().await;
        let made = tokio::task::spawn_blocking(move || store.made(&wanted, size, format)).await;
        drop(reads);
        if let Some(image) = made.map_err(panicked)?? {
            return Ok(image);
        }
        let turn = Arc::clone(&self.making).acquire_owned().await;
        let store = Arc::clone(self);
        tokio::task::spawn_blocking(move || {
            // Held here: a request that is given up goes on working.
            let _turn = turn;
            store.sized(&hash, size, format)
        })
        .await
        .map_err(panicked)?
    }

    /// The kept picture `hash` at `size`, made where nobody has asked for it before. Waits for whoever decodes.
    fn sized(&self, hash: &str, size: (u32, u32), format: ImageFormat) -> Result<Image> {
        let one = self.decoding.lock();
        // Whoever was before may have asked for the same.
        if let Some(image) = self.made(hash, size, format)? {
            return Ok(image);
        }
        let original = self.original(hash)?;
        let picture = decode(&original, hash, size.0, size.1)?;
        let bytes = encode(&picture, format, SIZED_QUALITY, hash)?;
        write_whole(&self.path_of(hash, size, format), &bytes)?;
        drop(one);
        Ok(Image { bytes, mime: mime(format), etag: etag(hash, size, format) })
    }

    /// The picture `hash` at `size`, if it was asked for before.
    fn made(&self, hash: &str, size: (u32, u32), format: ImageFormat) -> Result<Option<Image>> {
        let path = self.path_of(hash, size, format);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(Image { bytes, mime: mime(format), etag: etag(hash, size, format) })),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(LibraryError::io("read", &path)(e)),
        }
    }

    fn path_of(&self, hash: &str, size: (u32, u32), format: ImageFormat) -> PathBuf {
        self.sized.join(format!("{hash}-{}x{}.{}", size.0, size.1, format.as_str()))
    }

    fn original(&self, hash: &str) -> Result<Vec<u8>> {
        for ext in ["jpeg", "png"] {
            let path = self.originals.join(format!("{hash}.{ext}"));
            match fs::read(&path) {
                Ok(bytes) => return Ok(bytes),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(LibraryError::io("read", &path)(e)),
            }
        }
        // Emptied by hand: the next scan with a changed source, or a reset, brings it back.
        Err(LibraryError::not_found("kept picture", hash))
    }
}

/// The size of a `width` × `height` picture fitted into what was asked for, by the ladder.
pub(crate) fn fit(width: u32, height: u32, want_width: Option<u32>, want_height: Option<u32>) -> (u32, u32) {
    let step = |side: u32| LADDER.into_iter().find(|s| *s >= side).unwrap_or(KEPT_SIDE);
    let (max_w, max_h) = (want_width.map_or(KEPT_SIDE, step), want_height.map_or(KEPT_SIDE, step));
    fitted(width, height, max_w, max_h)
}

fn fitted(width: u32, height: u32, max_w: u32, max_h: u32) -> (u32, u32) {
    let (w, h) = (u64::from(width.max(1)), u64::from(height.max(1)));
    if width <= max_w && height <= max_h {
        return (width.max(1), height.max(1));
    }
    // The tighter side decides; integers, so that every caller comes to the same file name.
    let by_width = (u64::from(max_w), (h * u64::from(max_w) / w).max(1));
    let by_height = ((w * u64::from(max_h) / h).max(1), u64::from(max_h));
    let (w, h) = if by_width.1 <= u64::from(max_h) { by_width } else { by_height };
    (u32::try_from(w).unwrap_or(max_w), u32::try_from(h).unwrap_or(max_h))
}

pub(crate) fn etag(hash: &str, size: (u32, u32), format: ImageFormat) -> String {
    format!("\"{hash}-{}x{}-{format}\"", size.0, size.1)
}

fn mime(format: ImageFormat) -> &'static str {
    match format {
        ImageFormat::Jpeg => "image/jpeg",
        ImageFormat::Png => "image/png",
        ImageFormat::Webp => "image/webp",
    }
}

fn refused(name: &str) -> impl Fn(image::ImageError) -> LibraryError + '_ {
    move |e| LibraryError::Picture { name: name.to_owned(), reason: e.to_string() }
}

/// Decodes a picture, shrunk to fit into `max_w` × `max_h`, upright.
fn decode(bytes: &[u8], name: &str, max_w: u32, max_h: u32) -> Result<DynamicImage> {
    let mut limits = Limits::default();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    limits.max_alloc = Some(MAX_DECODE_BYTES);
    let mut reader = ImageReader::new(Cursor::new(bytes))
        .with_guessed_format()
        .map_err(|e| LibraryError::Picture { name: name.to_owned(), reason: e.to_string() })?;
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(refused(name))?;
    let takes = decode_bytes(&decoder, bytes);
    if takes > MAX_DECODE_BYTES {
        let (w, h) = decoder.dimensions();
        let reason = format!(
            "it has {w} × {h} pixels, which take {} MiB to decode; at most {} MiB are spent on a picture",
            takes >> 20,
            MAX_DECODE_BYTES >> 20
        );
        return Err(LibraryError::Picture { name: name.to_owned(), reason });
    }
    // Phones store pictures lying down and say so; a picture without the mark is upright.
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let picture = DynamicImage::from_decoder(decoder).map_err(refused(name))?;
    // Shrunk before it is turned, which makes a second one of it.
    let lies = matches!(
        orientation,
        Orientation::Rotate90
            | Orientation::Rotate270
            | Orientation::Rotate90FlipH
            | Orientation::Rotate270FlipH
    );
    let mut picture = if lies { shrink(picture, max_h, max_w) } else { shrink(picture, max_w, max_h) };
    picture.apply_orientation(orientation);
    Ok(picture)
}

/// Bytes that decoding holds at its peak: the pixels, and of a progressive JPEG all coefficients besides, two bytes each
/// (ITU-T T.81 section G: each scan refines all of the picture).
fn decode_bytes(decoder: &impl ImageDecoder, bytes: &[u8]) -> u64 {
    let pixels = decoder.total_bytes();
    if is_progressive_jpeg(bytes) { pixels.saturating_mul(3) } else { pixels }
}

/// Whether the frame header of a JPEG is one of the progressive ones (ITU-T T.81 table B.1).
fn is_progressive_jpeg(bytes: &[u8]) -> bool {
    let Some(mut rest) = bytes.strip_prefix(&[0xff, 0xd8]) else { return false };
    // A segment: 0xff, any number of them again, the marker, and but for the shortest a length that counts itself.
    while let Some(at) = rest.iter().position(|b| *b != 0xff) {
        match rest.get(at..at + 3) {
            Some([0xc2 | 0xc6 | 0xca | 0xce, ..]) => return true,
            Some([0xc0..=0xcf, ..]) if rest[at] != 0xc4 && rest[at] != 0xc8 && rest[at] != 0xcc => {
                return false;
            }
            Some([0xda, ..]) | None => return false,
            Some([_, high, low]) => {
                let len = usize::from(u16::from_be_bytes([*high, *low]));
                rest = rest.get(at + 1 + len.max(2)..).unwrap_or_default();
            }
            Some(_) => return false,
        }
    }
    false
}

fn shrink(picture: DynamicImage, max_w: u32, max_h: u32) -> DynamicImage {
    let (w, h) = fitted(picture.width(), picture.height(), max_w, max_h);
    if (w, h) == (picture.width(), picture.height()) {
        return picture;
    }
    // `thumbnail_exact` averages areas: far cheaper than a windowed filter, and no aliasing when
    // shrinking by more than two; the last step of less than two wants the filter.
    let near = picture.width() < w.saturating_mul(2);
    if near {
        picture.resize_exact(w, h, image::imageops::FilterType::CatmullRom)
    } else {
        picture.thumbnail_exact(w.saturating_mul(3) / 2, h.saturating_mul(3) / 2).resize_exact(
            w,
            h,
            image::imageops::FilterType::CatmullRom,
        )
    }
}

fn has_transparency(picture: &DynamicImage) -> bool {
    picture.color().has_alpha() && picture.to_rgba8().pixels().any(|p| p.0[3] < 250)
}

fn encode(picture: &DynamicImage, format: ImageFormat, quality: u8, name: &str) -> Result<Vec<u8>> {
    let mut out = Cursor::new(Vec::new());
    match format {
        ImageFormat::Jpeg => {
            let encoder = JpegEncoder::new_with_quality(&mut out, quality);
            picture.to_rgb8().write_with_encoder(encoder).map_err(refused(name))?;
        }
        ImageFormat::Png => {
            DynamicImage::from(picture.to_rgba8())
                .write_to(&mut out, image::ImageFormat::Png)
                .map_err(refused(name))?;
        }
        ImageFormat::Webp => {
            DynamicImage::from(picture.to_rgba8())
                .write_to(&mut out, image::ImageFormat::WebP)
                .map_err(refused(name))?;
        }
    }
    Ok(out.into_inner())
}

/// Whole or not at all: another request may read the name at any time.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let part = path.with_extension(format!("{}.part", new_id()));
    let written =
        fs::File::create(&part).and_then(|mut f| f.write_all(bytes)).and_then(|()| fs::rename(&part, path));
    written.map_err(|e| {
        drop(fs::remove_file(&part));
        LibraryError::io("write", path)(e)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut out = Cursor::new(Vec::new());
        DynamicImage::new_rgb8(width, height).write_to(&mut out, image::ImageFormat::Png).unwrap();
        out.into_inner()
    }

    #[test]
    fn sizes_go_by_the_ladder_and_never_up() {
        assert_eq!(fit(1_000, 1_500, Some(300), None), (320, 480));
        assert_eq!(fit(1_000, 1_500, Some(300), Some(300)), (213, 320));
        assert_eq!(fit(100, 150, Some(300), None), (100, 150));
        assert_eq!(fit(1_000, 1_500, Some(u32::MAX), Some(0)), (53, 80));
        assert_eq!(fit(1_920, 3, Some(1), None), (80, 1));
    }

    #[test]
    fn a_picture_is_kept_small_and_given_out_by_size() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let kept = store.keep(&png(3_000, 1_000), "x.png").unwrap();
        assert_eq!((kept.width, kept.height, kept.mime), (1_920, 640, "image/jpeg"));
        let image = store
            .sized(&kept.hash, fit(kept.width, kept.height, Some(200), None), ImageFormat::Jpeg)
            .unwrap();
        let back = decode(&image.bytes, "back", KEPT_SIDE, KEPT_SIDE).unwrap();
        assert_eq!((back.width(), back.height()), (240, 80));
        let again = store.sized(&kept.hash, (240, 80), ImageFormat::Jpeg).unwrap();
        assert_eq!(again.bytes, image.bytes);
    }

    #[test]
    fn requests_that_wait_for_a_picture_hold_one_thread_together() {
        const THREADS: usize = 2;
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(dir.path()).unwrap());
        let kept = store.keep(&png(300, 100), "x.png").unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().max_blocking_threads(THREADS).enable_all().build();
        let runtime = runtime.unwrap();
        let decoding = store.decoding.lock();
        let asked: Vec<_> = (0..4 * THREADS)
            .map(|_| {
                let (store, hash) = (Arc::clone(&store), kept.hash.clone());
                runtime.spawn(async move { store.give(hash, (240, 80), ImageFormat::Jpeg).await })
            })
            .collect();
        // Work of others that comes after each of them: with all threads held it would not be done.
        for _ in 0..100 {
            let others = runtime.spawn_blocking(std::thread::yield_now);
            let done = async { tokio::time::timeout(std::time::Duration::from_secs(30), others).await };
            runtime.block_on(done).expect("a thread is free").unwrap();
        }
        drop(decoding);
        for one in asked {
            assert!(!runtime.block_on(one).unwrap().unwrap().bytes.is_empty());
        }
    }

    /// A JPEG that claims a size in its frame header (ITU-T T.81 section B.2.2) and has nothing behind it.
    fn jpeg_of(width: u16, height: u16, frame: u8) -> Vec<u8> {
        let mut out = Vec::from(*b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00");
        let [[h1, h2], [w1, w2]] = [height.to_be_bytes(), width.to_be_bytes()];
        out.extend([0xff, frame, 0, 17, 8, h1, h2, w1, w2, 3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0]);
        out.extend([0xff, 0xda, 0, 12, 3, 1, 0, 2, 0, 3, 0, 0, 63, 0]);
        out
    }

    #[test]
    fn a_picture_that_would_take_too_much_memory_is_refused_before_any_is_taken() {
        assert!(is_progressive_jpeg(&jpeg_of(10, 10, 0xc2)));
        for (width, height, frame, refused) in [
            (12_000, 12_000, 0xc0, true),
            (9_000, 9_000, 0xc0, false),
            (9_000, 9_000, 0xc2, true),
            (5_000, 5_000, 0xc2, false),
        ] {
            let error = decode(&jpeg_of(width, height, frame), "x.jpg", 10, 10).unwrap_err().to_string();
            assert_eq!(error.contains("to decode; at most 256 MiB"), refused, "{width} {frame:x}: {error}");
        }
        let mut bomb = png(8, 8);
        bomb[16..20].copy_from_slice(&12_000_u32.to_be_bytes());
        bomb[20..24].copy_from_slice(&12_000_u32.to_be_bytes());
        assert!(decode(&bomb, "bomb.png", 10, 10).is_err());
    }

    #[test]
    fn what_is_no_picture_is_refused_with_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let error = store.keep(b"#EXTM3U\nnot a picture", "poster.jpg").unwrap_err();
        assert!(error.to_string().contains("poster.jpg"), "{error}");
        let mut huge = png(8, 8);
        // The width in the header (PNG section 11.2.2): a bomb that claims 2^31 - 1 pixels.
        huge[16..20].copy_from_slice(&0x7fff_ffff_u32.to_be_bytes());
        assert!(store.keep(&huge, "bomb.png").is_err());
    }
}
