//! FFmpeg's C interface, wrapped: every `unsafe` call into libav* stands here.
//!
//! Each wrapper owns one C object, checks every return code and gives values out. The raw
//! interface is used rather than the safe crate on top of it because we need custom input with
//! nothing else openable, `codec_tag`, side data and discarding, which that crate does not have.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr::{null, null_mut};

use ffmpeg_next::ffi as av;
pub(crate) use ffmpeg_next::ffi::{AVCodecID, AVFieldOrder, AVPixelFormat, AVSampleFormat};
use spindle_media::codec::dolby::DolbyVision;
use spindle_transcode::protocol::FailKind;

use crate::kind;
use crate::source::Source;

/// A failure, as it is told to the server.
#[derive(Debug, Clone)]
pub(crate) struct Fail {
    pub(crate) kind: FailKind,
    pub(crate) reason: String,
}

pub(crate) type Result<T> = std::result::Result<T, Fail>;

impl Fail {
    pub(crate) fn unreadable(reason: impl Into<String>) -> Self {
        Self { kind: FailKind::Unreadable, reason: reason.into() }
    }
    pub(crate) fn request(reason: impl Into<String>) -> Self {
        Self { kind: FailKind::BadRequest, reason: reason.into() }
    }
    pub(crate) fn fault(reason: impl Into<String>) -> Self {
        Self { kind: FailKind::Fault, reason: reason.into() }
    }
}

/// FFmpeg's words for an error code.
pub(crate) fn error_text(code: c_int) -> String {
    let mut text = [0_u8; 128];
    // SAFETY: the buffer is as long as we say, and ends with a zero in any case.
    unsafe { av::av_strerror(code, text.as_mut_ptr().cast(), text.len()) };
    CStr::from_bytes_until_nul(&text).map_or_else(|_| code.to_string(), |t| t.to_string_lossy().into_owned())
}

fn check(code: c_int, what: &str) -> Result<c_int> {
    if code >= 0 {
        return Ok(code);
    }
    Err(Fail::fault(format!("unable to {what}: {}", error_text(code))))
}

/// The same of a step that is set up by what the file says of itself: a damaged one can ask for what no decoder, filter or muxer
/// does. That is told as the file's fault, and is none of the server's; what the machine lacked is.
fn check_of_file(code: c_int, what: &str) -> Result<c_int> {
    const OURS: [c_int; 6] =
        [libc::ENOMEM, libc::EAGAIN, libc::EIO, libc::ENOSPC, libc::EMFILE, libc::ENFILE];
    if code >= 0 || OURS.iter().any(|errno| code == av::AVERROR(*errno)) {
        return check(code, what);
    }
    Err(Fail::unreadable(format!("unable to {what}: {}", error_text(code))))
}

fn text(p: *const std::ffi::c_char) -> Option<String> {
    if p.is_null() {
        return None;
    }
    // SAFETY: libav* gives zero-terminated strings that live at least until we return.
    Some(unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned())
}

fn c(s: &str) -> CString {
    CString::new(s.replace('\0', "")).unwrap_or_default()
}

pub(crate) const NOPTS: i64 = av::AV_NOPTS_VALUE;

/// FFmpeg's version string.
pub(crate) fn version() -> String {
    // SAFETY: returns a static string.
    text(unsafe { av::av_version_info() }).unwrap_or_default()
}

/// Only errors on standard error: a damaged file can make a decoder complain without end.
pub(crate) fn quiet() {
    // SAFETY: sets one global integer, before any thread exists.
    unsafe { av::av_log_set_level(av::AV_LOG_FATAL) };
}

/// Kinds of streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Media {
    Video,
    Audio,
    Subtitle,
    Attachment,
    Other,
}

/// What the demuxer says of a stream, as values.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) index: usize,
    pub(crate) media: Media,
    pub(crate) codec_id: AVCodecID,
    pub(crate) codec: String,
    pub(crate) profile_name: Option<String>,
    pub(crate) profile: i32,
    pub(crate) level: i32,
    pub(crate) tag: u32,
    pub(crate) extradata: Vec<u8>,
    pub(crate) time_base: (i32, i32),
    pub(crate) start: Option<i64>,
    pub(crate) duration: Option<i64>,
    pub(crate) bit_rate: i64,
    pub(crate) disposition: u32,
    pub(crate) tags: BTreeMap<String, String>,
    pub(crate) avg_rate: (i32, i32),
    pub(crate) real_rate: (i32, i32),
    pub(crate) pixel_format: Option<String>,
    pub(crate) bit_depth: Option<u8>,
    pub(crate) width: i32,
    pub(crate) height: i32,
    pub(crate) sar: (i32, i32),
    pub(crate) field_order: AVFieldOrder,
    pub(crate) color_range: Option<String>,
    pub(crate) color_primaries: Option<String>,
    pub(crate) color_transfer: Option<String>,
    pub(crate) color_space: Option<String>,
    pub(crate) channels: i32,
    pub(crate) layout: Option<String>,
    pub(crate) sample_rate: i32,
    pub(crate) sample_bits: i32,
    pub(crate) rotation: u16,
    pub(crate) dovi: Option<DolbyVision>,
    pub(crate) hdr10_plus: bool,
    pub(crate) mastering: bool,
}

/// Chapter of a file: start and end in seconds of the file's clock.
pub(crate) struct ChapterFacts {
    pub(crate) start_s: f64,
    pub(crate) end_s: f64,
    pub(crate) title: Option<String>,
}

/// Demuxers that may see a file. Not among them is everything that opens further files or
/// addresses: playlists, scripts, devices, image sequences.
const DEMUXERS: &str = "matroska,webm,mov,mp4,m4a,3gp,3g2,mj2,mpegts,mpeg,mpegvideo,avi,flv,asf,ogg,mp3,flac,\
aac,ac3,eac3,dts,dtshd,truehd,wav,w64,aiff,caf,au,ape,wv,tta,tak,mpc,mpc8,amr,dsf,rm,nut,ivf,h264,hevc,m4v,obu,av1,\
gxf,mxf,dv,rawvideo,vc1,srt,ass,webvtt,jpeg_pipe,png_pipe,webp_pipe,gif,bmp_pipe,tiff_pipe,wtv,nsv,ea,sup,vobsub";

/// An open file.
pub(crate) struct Input {
    ctx: *mut av::AVFormatContext,
    io: *mut av::AVIOContext,
    source: *mut Source,
}

unsafe extern "C" fn read_packet(opaque: *mut c_void, buf: *mut u8, size: c_int) -> c_int {
    // SAFETY: `opaque` is the Source that `Input` owns and that outlives the context; FFmpeg gives
    // a buffer of `size` bytes, which may be uninitialised but is only written.
    let (source, buf) = unsafe {
        std::ptr::write_bytes(buf, 0, 0);
        (&mut *opaque.cast::<Source>(), std::slice::from_raw_parts_mut(buf, size.max(0) as usize))
    };
    match source.read(buf) {
        Ok(0) => av::AVERROR_EOF,
        Ok(n) => n as c_int,
        Err(e) => -e.raw_os_error().unwrap_or(libc::EIO),
    }
}

unsafe extern "C" fn seek_packet(opaque: *mut c_void, offset: i64, whence: c_int) -> i64 {
    // SAFETY: as in `read_packet`.
    let source = unsafe { &mut *opaque.cast::<Source>() };
    let size = source.size() as i64;
    let to = match whence & !av::AVSEEK_FORCE {
        w if w == av::AVSEEK_SIZE => return size,
        0 => offset,
        1 => source.position() as i64 + offset,
        2 => size + offset,
        _ => return i64::from(av::AVERROR(libc::EINVAL)),
    };
    match u64::try_from(to) {
        Ok(to) => {
            source.set_position(to);
            to as i64
        }
        Err(_) => i64::from(av::AVERROR(libc::EINVAL)),
    }
}

unsafe extern "C" fn refuse_open(
    _: *mut av::AVFormatContext,
    _: *mut *mut av::AVIOContext,
    _: *const std::ffi::c_char,
    _: c_int,
    _: *mut *mut av::AVDictionary,
) -> c_int {
    av::AVERROR(libc::EPERM)
}

impl Input {
    /// Opens a file and finds its streams.
    ///
    /// `thorough` reads on until everything is known of every stream, as a description needs it.
    pub(crate) fn open(source: Source, name: &str, thorough: bool) -> Result<Self> {
        if source.size() == 0 {
            return Err(Fail::unreadable("empty file"));
        }
        // What is larger than the buffer goes past it (libavformat/aviobuf.c, avio_read), and the source holds whole blocks: a
        // larger one would copy every packet once more.
        const BUFFER_BYTES: usize = 4 << 10;
        let source = Box::into_raw(Box::new(source));
        // SAFETY: plain allocations; every pointer is checked before use, and `input` owns all
        // three from here on, so that an early return frees them.
        let mut input = unsafe {
            let buffer = av::av_malloc(BUFFER_BYTES).cast::<u8>();
            let io = av::avio_alloc_context(
                buffer,
                BUFFER_BYTES as c_int,
                0,
                source.cast(),
                Some(read_packet),
                None,
                Some(seek_packet),
            );
            Self { ctx: av::avformat_alloc_context(), io, source }
        };
        if input.ctx.is_null() || input.io.is_null() {
            return Err(Fail::fault("out of memory"));
        }
        let head = source_head(&mut input);
        if let Some(what) = kind::of_no_media(&head) {
            return Err(Fail::unreadable(format!("not a media file: {what}")));
        }
        let file_name = c(name);
        let mut format: *const av::AVInputFormat = null();
        // SAFETY: the context and the name live through the call.
        let score = unsafe {
            av::av_probe_input_buffer2(input.io, &raw mut format, file_name.as_ptr(), null_mut(), 0, 1 << 20)
        };
        if score < 0 || format.is_null() {
            return Err(Fail::unreadable(unknown(&head)));
        }
        // SAFETY: a demuxer description is static.
        let demuxer = text(unsafe { (*format).name }).unwrap_or_default();
        refuse_format(&demuxer)?;
        if !kind::may_be(&demuxer, &head) {
            // Only its name said so.
            return Err(Fail::unreadable(unknown(&head)));
        }
        // SAFETY: the context is ours. `pb` is set, so nothing is opened by name; `io_open`
        // refuses whatever a demuxer might ask for on top; avformat_open_input frees the context
        // on failure and sets our pointer to null.
        let code = unsafe {
            let ctx = input.ctx;
            (*ctx).pb = input.io;
            (*ctx).io_open = Some(refuse_open);
            (*ctx).flags |= av::AVFMT_FLAG_CUSTOM_IO;
            (*ctx).max_streams = 256;
            let list = c("none");
            let mut options = null_mut();
            av::av_dict_set(&raw mut options, c("protocol_whitelist").as_ptr(), list.as_ptr(), 0);
            av::av_dict_set(&raw mut options, c("format_whitelist").as_ptr(), c(DEMUXERS).as_ptr(), 0);
            if matches!(demuxer.as_str(), "avi" | "mpeg" | "mpegts" | "h264" | "hevc") {
                // Several pictures may share one time stamp there.
                av::av_dict_set(&raw mut options, c("fflags").as_ptr(), c("+genpts").as_ptr(), 0);
            }
            let code = av::avformat_open_input(
                &raw mut input.ctx,
                file_name.as_ptr(),
                format.cast_mut().cast(),
                &raw mut options,
            );
            av::av_dict_free(&raw mut options);
            code
        };
        if code < 0 {
            return Err(Fail::unreadable(open_reason(&demuxer, code)));
        }
        if thorough || !input.is_described_by_header(&demuxer) {
            // SAFETY: the context is open.
            let code = unsafe { av::avformat_find_stream_info(input.ctx, null_mut()) };
            if code < 0 {
                return Err(Fail::unreadable(format!("its streams cannot be read: {}", error_text(code))));
            }
        }
        Ok(input)
    }

    /// Whether the header says all that copying and decoding need, so that no packet has to be
    /// read before the first segment.
    fn is_described_by_header(&self, demuxer: &str) -> bool {
        if !demuxer.contains("mov") && !demuxer.contains("matroska") {
            return false;
        }
        // SAFETY: reads fields of an open context.
        if unsafe { (*self.ctx).duration } <= 0 || self.start_us() == NOPTS {
            return false;
        }
        (0..self.streams()).all(|i| {
            let f = self.facts(i);
            match f.media {
                Media::Video => f.width > 0 && !f.extradata.is_empty() && f.pixel_format.is_some(),
                Media::Audio => f.sample_rate > 0 && f.channels > 0,
                _ => true,
            }
        })
    }

    pub(crate) fn source(&mut self) -> &mut Source {
        // SAFETY: owned by us, freed only on drop; FFmpeg uses it only inside calls that we make.
        unsafe { &mut *self.source }
    }

    pub(crate) fn demuxer(&self) -> String {
        // SAFETY: an open context has a format with a static name.
        text(unsafe { (*(*self.ctx).iformat).name }).unwrap_or_default()
    }

    pub(crate) fn streams(&self) -> usize {
        // SAFETY: field of an open context.
        unsafe { (*self.ctx).nb_streams as usize }
    }

    /// Earliest time of any stream in microseconds, or `NOPTS`.
    pub(crate) fn start_us(&self) -> i64 {
        // SAFETY: field of an open context.
        unsafe { (*self.ctx).start_time }
    }

    /// Length in microseconds, as far as the file says.
    pub(crate) fn duration_us(&self) -> Option<i64> {
        // SAFETY: field of an open context.
        let d = unsafe { (*self.ctx).duration };
        (d > 0).then_some(d)
    }

    pub(crate) fn bit_rate(&self) -> i64 {
        // SAFETY: field of an open context.
        unsafe { (*self.ctx).bit_rate }
    }

    pub(crate) fn tags(&self) -> BTreeMap<String, String> {
        // SAFETY: the dictionary of an open context.
        tags(unsafe { (*self.ctx).metadata })
    }

    pub(crate) fn chapters(&self) -> Vec<ChapterFacts> {
        // SAFETY: `chapters` holds `nb_chapters` pointers.
        unsafe {
            (0..(*self.ctx).nb_chapters as usize)
                .map(|i| {
                    let ch = &**(*self.ctx).chapters.add(i);
                    let tb = f64::from(ch.time_base.num) / f64::from(ch.time_base.den.max(1));
                    ChapterFacts {
                        start_s: ch.start as f64 * tb,
                        end_s: ch.end as f64 * tb,
                        title: tags(ch.metadata).remove("title"),
                    }
                })
                .collect()
        }
    }

    fn stream(&self, i: usize) -> *mut av::AVStream {
        assert!(i < self.streams(), "stream {i}");
        // SAFETY: `streams` holds `nb_streams` pointers.
        unsafe { *(*self.ctx).streams.add(i) }
    }

    pub(crate) fn facts(&self, i: usize) -> Facts {
        let st = self.stream(i);
        // SAFETY: a stream and its parameters live as long as the context; every pointer that
        // may be null is checked.
        unsafe {
            let par = &*(*st).codecpar;
            let descriptor = av::avcodec_descriptor_get(par.codec_id);
            let codec = if descriptor.is_null() { None } else { text((*descriptor).name) };
            let media = match par.codec_type {
                av::AVMediaType::AVMEDIA_TYPE_VIDEO => Media::Video,
                av::AVMediaType::AVMEDIA_TYPE_AUDIO => Media::Audio,
                av::AVMediaType::AVMEDIA_TYPE_SUBTITLE => Media::Subtitle,
                av::AVMediaType::AVMEDIA_TYPE_ATTACHMENT => Media::Attachment,
                _ => Media::Other,
            };
            let extradata = if par.extradata.is_null() || par.extradata_size <= 0 {
                Vec::new()
            } else {
                std::slice::from_raw_parts(par.extradata, par.extradata_size as usize).to_vec()
            };
            let mut pixel_format = None;
            let mut bit_depth = None;
            if media == Media::Video && par.format >= 0 {
                let format: AVPixelFormat = std::mem::transmute(par.format);
                pixel_format = text(av::av_get_pix_fmt_name(format));
                let d = av::av_pix_fmt_desc_get(format);
                if !d.is_null() {
                    bit_depth = u8::try_from((*d).comp[0].depth).ok();
                }
            }
            let layout = (media == Media::Audio && par.ch_layout.nb_channels > 0).then(|| {
                let mut name = [0_u8; 96];
                av::av_channel_layout_describe(
                    &raw const par.ch_layout,
                    name.as_mut_ptr().cast(),
                    name.len(),
                );
                CStr::from_bytes_until_nul(&name)
                    .map(|n| n.to_string_lossy().into_owned())
                    .unwrap_or_default()
            });
            let side = |kind| {
                let mut size = 0;
                let data = av::av_stream_get_side_data(st, kind, &raw mut size);
                (!data.is_null()).then(|| std::slice::from_raw_parts(data, size))
            };
            use av::AVPacketSideDataType as Side;
            let rotation = side(Side::AV_PKT_DATA_DISPLAYMATRIX).filter(|d| d.len() >= 36).map_or(0, |d| {
                let angle = av::av_display_rotation_get(d.as_ptr().cast());
                // FFmpeg gives counter-clockwise degrees.
                if angle.is_nan() {
                    0
                } else {
                    ((-angle.round() as i32).rem_euclid(360) as u16 + 45) / 90 * 90 % 360
                }
            });
            // AVDOVIDecoderConfigurationRecord (libavutil/dovi_meta.h) is eight bytes: profile is the
            // third, level the fourth, compatibility of the base layer the last.
            let dovi = side(Side::AV_PKT_DATA_DOVI_CONF).filter(|d| d.len() >= 8).map(|d| DolbyVision {
                profile: d[2],
                level: d[3],
                compatibility: d[7],
            });
            let mastering = side(Side::AV_PKT_DATA_MASTERING_DISPLAY_METADATA).is_some();
            let hdr10_plus = side(Side::AV_PKT_DATA_DYNAMIC_HDR10_PLUS).is_some();
            let known = |name: Option<String>| {
                name.filter(|n| n != "unknown" && n != "reserved" && n != "unspecified")
            };
            Facts {
                index: i,
                media,
                codec_id: par.codec_id,
                codec: codec.unwrap_or_else(|| "unknown".to_owned()),
                profile_name: text(av::avcodec_profile_name(par.codec_id, par.profile)),
                profile: par.profile,
                level: par.level,
                tag: par.codec_tag,
                extradata,
                time_base: ((*st).time_base.num, (*st).time_base.den),
                start: Some((*st).start_time).filter(|t| *t != NOPTS),
                duration: Some((*st).duration).filter(|t| *t != NOPTS && *t > 0),
                bit_rate: par.bit_rate,
                disposition: (*st).disposition as u32,
                tags: tags((*st).metadata),
                avg_rate: ((*st).avg_frame_rate.num, (*st).avg_frame_rate.den),
                real_rate: ((*st).r_frame_rate.num, (*st).r_frame_rate.den),
                pixel_format,
                bit_depth,
                width: par.width,
                height: par.height,
                sar: {
                    let sar = av::av_guess_sample_aspect_ratio(self.ctx, st, null_mut());
                    (sar.num, sar.den)
                },
                field_order: par.field_order,
                color_range: known(text(av::av_color_range_name(par.color_range))),
                color_primaries: known(text(av::av_color_primaries_name(par.color_primaries))),
                color_transfer: known(text(av::av_color_transfer_name(par.color_trc))),
                color_space: known(text(av::av_color_space_name(par.color_space))),
                channels: par.ch_layout.nb_channels,
                layout,
                sample_rate: par.sample_rate,
                sample_bits: if par.bits_per_raw_sample > 0 {
                    par.bits_per_raw_sample
                } else {
                    par.bits_per_coded_sample
                },
                rotation,
                dovi,
                hdr10_plus,
                mastering,
            }
        }
    }

    /// The picture that is stored with a cover stream.
    pub(crate) fn attached_picture(&self, i: usize) -> Option<Vec<u8>> {
        let st = self.stream(i);
        // SAFETY: `attached_pic` is a packet of the stream, empty where there is none.
        unsafe {
            let p = &(*st).attached_pic;
            (!p.data.is_null() && p.size > 0)
                .then(|| std::slice::from_raw_parts(p.data, p.size as usize).to_vec())
        }
    }

    /// Drops the packets of every stream that is not in `wanted` before they are parsed.
    pub(crate) fn only(&mut self, wanted: &[usize]) {
        for i in 0..self.streams() {
            // SAFETY: a field that the demuxer reads with each packet.
            unsafe {
                (*self.stream(i)).discard = if wanted.contains(&i) {
                    av::AVDiscard::AVDISCARD_DEFAULT
                } else {
                    av::AVDiscard::AVDISCARD_ALL
                };
            }
        }
    }

    /// The next packet; `false` at the end. Damaged places are skipped by the demuxers.
    pub(crate) fn read(&mut self, packet: &mut Packet) -> Result<bool> {
        // SAFETY: both are open and ours; the packet's old content is given back first.
        let code = unsafe {
            av::av_packet_unref(packet.0);
            av::av_read_frame(self.ctx, packet.0)
        };
        match self.source().take_loss() {
            Some(why) => Err(Fail::unreadable(why)),
            // The rest of a damaged file is its end, as it is of a whole one.
            None => Ok(code == 0),
        }
    }

    /// Moves to the last place at which decoding of `stream` can start at or before `ts`, in the
    /// stream's time base.
    pub(crate) fn seek(&mut self, stream: usize, ts: i64) -> bool {
        // SAFETY: the context is open.
        unsafe { av::avformat_seek_file(self.ctx, stream as c_int, i64::MIN, ts, ts, 0) >= 0 }
    }

    /// Moves to the beginning.
    pub(crate) fn rewind(&mut self, stream: usize) {
        let demuxer = self.demuxer();
        let kind = demuxer.split(',').next();
        let by_bytes = !matches!(kind, Some("mov" | "matroska" | "avi" | "flv" | "asf" | "ogg"));
        // SAFETY: the context is open; a failure leaves it where it is.
        unsafe {
            // Formats without an index search by time and may land behind the first key frame.
            if by_bytes && av::av_seek_frame(self.ctx, -1, 0, av::AVSEEK_FLAG_BYTE as c_int) >= 0 {
                return;
            }
            let start = (*self.stream(stream)).start_time;
            let mut ts = if start == NOPTS { 0 } else { start };
            if kind == Some("mov") {
                // What an edit list cuts off lies before the start, and decoders need it: a second earlier.
                ts -= i64::from((*self.stream(stream)).time_base.den);
            }
            if av::avformat_seek_file(self.ctx, stream as c_int, i64::MIN, ts, ts, 0) < 0 {
                av::avformat_seek_file(self.ctx, stream as c_int, i64::MIN, ts, i64::MAX, 0);
            }
        }
    }

    fn parameters(&self, i: usize) -> *const av::AVCodecParameters {
        // SAFETY: every stream has parameters.
        unsafe { (*self.stream(i)).codecpar }
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        // SAFETY: each is owned by us and freed once; the format context does not free a custom
        // `pb`; FFmpeg may have replaced the buffer, so the context's own pointer is freed.
        unsafe {
            if !self.ctx.is_null() {
                av::avformat_close_input(&raw mut self.ctx);
            }
            if !self.io.is_null() {
                av::av_freep((&raw mut (*self.io).buffer).cast());
                av::avio_context_free(&raw mut self.io);
            }
            drop(Box::from_raw(self.source));
        }
    }
}

/// The first bytes, before FFmpeg sees any.
fn source_head(input: &mut Input) -> Vec<u8> {
    let source = input.source();
    let mut head = vec![0; 64 << 10];
    let mut len = 0;
    while len < head.len() {
        match source.read(&mut head[len..]) {
            Ok(n) if n > 0 => len += n,
            // FFmpeg meets the same error and reports it.
            _ => break,
        }
    }
    source.set_position(0);
    head.truncate(len);
    head
}

fn unknown(head: &[u8]) -> String {
    let what = if kind::is_text(head) { "it is plain text" } else { "nothing in it is of a known format" };
    format!("not a media file: {what}")
}

fn refuse_format(demuxer: &str) -> Result<()> {
    let what = match demuxer {
        "hls" | "applehttp" | "hls,applehttp" => "it is an HLS playlist",
        "dash" => "it is a DASH manifest",
        "concat" => "it is a list of other files",
        "sdp" | "rtsp" => "it is a stream description",
        "imf" => "it is a package description",
        "tty" | "image2" => "it is text or a picture sequence",
        name => {
            let allowed = name.split(',').any(|n| DEMUXERS.split(',').any(|d| d == n));
            return if allowed {
                Ok(())
            } else {
                Err(Fail::unreadable(format!("not a media file that is played here: format `{name}`")))
            };
        }
    };
    Err(Fail::unreadable(format!("not a media file: {what}")))
}

fn open_reason(demuxer: &str, code: c_int) -> String {
    if demuxer.contains("mp4") && code == av::AVERROR_INVALIDDATA {
        return "truncated: the index (moov) is missing".to_owned();
    }
    format!("damaged: {} ({demuxer})", error_text(code))
}

fn tags(dictionary: *mut av::AVDictionary) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    let mut entry: *const av::AVDictionaryEntry = null();
    // SAFETY: the usual walk (dict.h): the previous entry goes in, the next comes out, null ends.
    unsafe {
        loop {
            entry = av::av_dict_get(dictionary, c"".as_ptr(), entry, av::AV_DICT_IGNORE_SUFFIX);
            if entry.is_null() {
                return out;
            }
            if let (Some(key), Some(value)) = (text((*entry).key), text((*entry).value)) {
                out.insert(key.to_lowercase(), value);
            }
        }
    }
}

/// A packet.
pub(crate) struct Packet(*mut av::AVPacket);

// SAFETY: it is owned by one thread at a time, and the buffers that it refers to are counted atomically
// (libavutil/buffer.h).
unsafe impl Send for Packet {}

impl Packet {
    pub(crate) fn new() -> Self {
        // SAFETY: allocates; a null is fatal for the process anyway.
        let p = unsafe { av::av_packet_alloc() };
        assert!(!p.is_null(), "out of memory");
        Self(p)
    }
    /// Takes the content out, leaving this empty for reuse.
    pub(crate) fn take(&mut self) -> Self {
        let other = Self::new();
        // SAFETY: both are valid; the other is empty.
        unsafe { av::av_packet_move_ref(other.0, self.0) };
        other
    }
    /// Another reference to the same bytes.
    pub(crate) fn share(&self) -> Result<Self> {
        let other = Self::new();
        // SAFETY: both are valid; the other is empty.
        check(unsafe { av::av_packet_ref(other.0, self.0) }, "copy a packet")?;
        Ok(other)
    }
    pub(crate) fn stream(&self) -> usize {
        // SAFETY: field of a valid packet (so for all below).
        unsafe { (*self.0).stream_index as usize }
    }
    pub(crate) fn pts(&self) -> Option<i64> {
        // SAFETY: see `stream`.
        let t = unsafe { (*self.0).pts };
        (t != NOPTS).then_some(t)
    }
    pub(crate) fn dts(&self) -> Option<i64> {
        // SAFETY: see `stream`.
        let t = unsafe { (*self.0).dts };
        (t != NOPTS).then_some(t)
    }
    pub(crate) fn duration(&self) -> i64 {
        // SAFETY: see `stream`.
        unsafe { (*self.0).duration }
    }
    pub(crate) fn is_key(&self) -> bool {
        // SAFETY: see `stream`.
        unsafe { (*self.0).flags & av::AV_PKT_FLAG_KEY != 0 }
    }
    pub(crate) fn data(&self) -> &[u8] {
        // SAFETY: `data` holds `size` bytes while the packet is not changed.
        unsafe {
            if (*self.0).data.is_null() || (*self.0).size <= 0 {
                &[]
            } else {
                std::slice::from_raw_parts((*self.0).data, (*self.0).size as usize)
            }
        }
    }
}

impl Drop for Packet {
    fn drop(&mut self) {
        // SAFETY: ours, freed once.
        unsafe { av::av_packet_free(&raw mut self.0) };
    }
}

/// A decoded picture or piece of sound.
pub(crate) struct Frame(*mut av::AVFrame);

// SAFETY: as for `Packet`.
unsafe impl Send for Frame {}

impl Frame {
    pub(crate) fn new() -> Self {
        // SAFETY: allocates.
        let p = unsafe { av::av_frame_alloc() };
        assert!(!p.is_null(), "out of memory");
        Self(p)
    }
    /// A picture with memory of its own.
    pub(crate) fn audio(format: AVSampleFormat, channels: i32, rate: i32, samples: i32) -> Result<Self> {
        let f = Self::new();
        // SAFETY: fields of a fresh frame; av_frame_get_buffer allocates by them.
        unsafe {
            (*f.0).format = format as c_int;
            (*f.0).sample_rate = rate;
            (*f.0).nb_samples = samples;
            av::av_channel_layout_default(&raw mut (*f.0).ch_layout, channels);
            check(av::av_frame_get_buffer(f.0, 0), "allocate sound")?;
        }
        Ok(f)
    }
    pub(crate) fn time(&self) -> Option<i64> {
        // SAFETY: fields of a valid frame (so for all below).
        let (best, pts) = unsafe { ((*self.0).best_effort_timestamp, (*self.0).pts) };
        [best, pts].into_iter().find(|t| *t != NOPTS)
    }
    pub(crate) fn pts(&self) -> i64 {
        // SAFETY: see `time`.
        unsafe { (*self.0).pts }
    }
    pub(crate) fn set_pts(&mut self, pts: i64) {
        // SAFETY: see `time`. The decoder's picture type would dictate the encoder's.
        unsafe {
            (*self.0).pts = pts;
            (*self.0).pict_type = av::AVPictureType::AV_PICTURE_TYPE_NONE;
        }
    }
    pub(crate) fn samples(&self) -> i32 {
        // SAFETY: see `time`.
        unsafe { (*self.0).nb_samples }
    }
    /// Width, height and pixel format.
    pub(crate) fn shape(&self) -> (i32, i32, i32) {
        // SAFETY: see `time`.
        unsafe { ((*self.0).width, (*self.0).height, (*self.0).format) }
    }
    /// Sample format, rate, channels: what a resampler must be made for.
    pub(crate) fn sound(&self) -> (i32, i32, i32) {
        // SAFETY: see `time`.
        unsafe { ((*self.0).format, (*self.0).sample_rate, (*self.0).ch_layout.nb_channels) }
    }
    pub(crate) fn take(&mut self) -> Self {
        let other = Self::new();
        // SAFETY: both valid, the other empty.
        unsafe { av::av_frame_move_ref(other.0, self.0) };
        other
    }
    /// Plane `i` of a sound frame as floats.
    pub(crate) fn floats_mut(&mut self, i: usize, count: usize) -> &mut [f32] {
        // SAFETY: made by `Frame::audio` with a float format and at least `count` values in the plane.
        unsafe { std::slice::from_raw_parts_mut((*(*self.0).extended_data.add(i)).cast(), count) }
    }
    /// Plane `i` of a sound frame as 32-bit integers.
    pub(crate) fn ints_mut(&mut self, i: usize, count: usize) -> &mut [i32] {
        // SAFETY: made by `Frame::audio` with a 32-bit format and at least `count` values.
        unsafe { std::slice::from_raw_parts_mut((*(*self.0).extended_data.add(i)).cast(), count) }
    }
    /// Plane `i` of a 4:2:0 picture, writable, with its line length.
    pub(crate) fn plane_mut(&mut self, i: usize) -> Result<(&mut [u8], usize)> {
        // SAFETY: av_frame_make_writable gives the frame memory of its own; a plane holds
        // `linesize` times its height bytes.
        unsafe {
            check(av::av_frame_make_writable(self.0), "copy a picture")?;
            let line = (*self.0).linesize[i].max(0) as usize;
            let rows = if i == 0 { (*self.0).height } else { ((*self.0).height + 1) / 2 } as usize;
            Ok((std::slice::from_raw_parts_mut((*self.0).data[i], line * rows), line))
        }
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        // SAFETY: ours, freed once.
        unsafe { av::av_frame_free(&raw mut self.0) };
    }
}

/// A picture of a bitmap subtitle on its canvas, as straight RGBA.
pub(crate) struct Bitmap {
    pub(crate) x: i32,
    pub(crate) y: i32,
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) rgba: Vec<u8>,
}

/// A decoded subtitle.
pub(crate) struct Caption {
    /// Display start and end after the packet's time, in ms; end absent: until the next.
    pub(crate) start_ms: u32,
    pub(crate) end_ms: Option<u32>,
    pub(crate) bitmaps: Vec<Bitmap>,
    /// ASS event lines.
    pub(crate) lines: Vec<String>,
}

/// A decoder, and the description that it was opened with.
pub(crate) struct Decoder(*mut av::AVCodecContext, *mut av::AVCodecParameters);

// SAFETY: a codec context may be used by any thread, by one at a time; ours is owned by one. It keeps
// nothing of the input that it was opened from.
unsafe impl Send for Decoder {}

impl Decoder {
    pub(crate) fn open(input: &Input, stream: usize, threads: bool) -> Result<Self> {
        let par = input.parameters(stream);
        // SAFETY: the parameters live in the input; the context is freed by `Drop` on any return
        // after it was wrapped.
        unsafe {
            let codec = av::avcodec_find_decoder((*par).codec_id);
            if codec.is_null() {
                return Err(Fail::unreadable(format!("no decoder for `{}`", input.facts(stream).codec)));
            }
            let me = Self(av::avcodec_alloc_context3(codec), av::avcodec_parameters_alloc());
            check(av::avcodec_parameters_copy(me.1, par), "copy parameters")?;
            check_of_file(av::avcodec_parameters_to_context(me.0, par), "set up a decoder")?;
            let st = input.stream(stream);
            (*me.0).pkt_timebase = (*st).time_base;
            (*me.0).framerate = (*st).avg_frame_rate;
            (*me.0).thread_count = if threads { 0 } else { 1 };
            // A cue that is no UTF-8 would be left out; read with marks for what is not, it is shown.
            (*me.0).sub_charenc_mode = av::FF_SUB_CHARENC_MODE_IGNORE;
            check_of_file(av::avcodec_open2(me.0, codec, null_mut()), "open a decoder")?;
            Ok(me)
        }
    }
    /// Hands a packet in; `None` drains. Damaged packets are passed over: one bad picture must
    /// not end a film.
    pub(crate) fn send(&mut self, packet: Option<&Packet>) {
        // SAFETY: open decoder, valid packet or null.
        unsafe { av::avcodec_send_packet(self.0, packet.map_or(null(), |p| p.0)) };
    }
    pub(crate) fn receive(&mut self, frame: &mut Frame) -> bool {
        // SAFETY: open decoder, valid frame.
        unsafe { av::avcodec_receive_frame(self.0, frame.0) >= 0 }
    }
    /// A decoder of the same stream that has seen nothing. Flushing is not enough where bytes must
    /// not depend on history: AC-3 and AAC decoders fill gaps with noise and keep its generator.
    pub(crate) fn fresh(&self) -> Result<Self> {
        // SAFETY: the old context and its parameters are ours and live; the new one is freed by
        // `Drop` on any return after it was wrapped.
        unsafe {
            let codec = (*self.0).codec;
            let me = Self(av::avcodec_alloc_context3(codec), av::avcodec_parameters_alloc());
            check(av::avcodec_parameters_copy(me.1, self.1), "copy parameters")?;
            check_of_file(av::avcodec_parameters_to_context(me.0, me.1), "set up a decoder")?;
            (*me.0).pkt_timebase = (*self.0).pkt_timebase;
            (*me.0).thread_count = 1;
            check_of_file(av::avcodec_open2(me.0, codec, null_mut()), "open a decoder")?;
            Ok(me)
        }
    }
    pub(crate) fn flush(&mut self) {
        // SAFETY: open decoder.
        unsafe { av::avcodec_flush_buffers(self.0) };
    }
    /// Size of the canvas of a subtitle stream, where known.
    pub(crate) fn canvas(&self) -> (i32, i32) {
        // SAFETY: fields of an open decoder.
        unsafe { ((*self.0).width, (*self.0).height) }
    }
    /// Decodes a subtitle packet.
    pub(crate) fn caption(&mut self, packet: &Packet) -> Option<Caption> {
        // SAFETY: a zeroed AVSubtitle is what the call fills; every rectangle pointer that it
        // returns is checked, and the whole is freed before we return.
        unsafe {
            let mut sub: av::AVSubtitle = std::mem::zeroed();
            let mut got = 0;
            let code = av::avcodec_decode_subtitle2(self.0, &raw mut sub, &raw mut got, packet.0);
            if code < 0 || got == 0 {
                return None;
            }
            let mut caption = Caption {
                start_ms: sub.start_display_time,
                end_ms: (sub.end_display_time != u32::MAX && sub.end_display_time > sub.start_display_time)
                    .then_some(sub.end_display_time),
                bitmaps: Vec::new(),
                lines: Vec::new(),
            };
            for i in 0..sub.num_rects as usize {
                let r = &**sub.rects.add(i);
                if let Some(line) = text(r.ass) {
                    caption.lines.push(line);
                }
                if r.type_ == av::AVSubtitleType::SUBTITLE_BITMAP
                    && !r.data[0].is_null()
                    && r.w > 0
                    && r.h > 0
                {
                    caption.bitmaps.push(bitmap(r));
                }
            }
            av::avsubtitle_free(&raw mut sub);
            Some(caption)
        }
    }
}

/// Copies a palette picture.
///
/// # Safety
/// `r` is a bitmap rectangle: `data[0]` holds `linesize[0] * h` bytes, `data[1]` 256 colours.
unsafe fn bitmap(r: &av::AVSubtitleRect) -> Bitmap {
    let (width, height) = (r.w as usize, r.h as usize);
    let line = r.linesize[0].max(0) as usize;
    let mut rgba = Vec::with_capacity(width * height * 4);
    // SAFETY: by the contract of this function.
    unsafe {
        let palette =
            std::slice::from_raw_parts(r.data[1].cast::<u32>(), if r.data[1].is_null() { 0 } else { 256 });
        for y in 0..height {
            for x in 0..width {
                let index = *r.data[0].add(y * line + x) as usize;
                let argb = palette.get(index).copied().unwrap_or(0);
                rgba.extend_from_slice(&[
                    (argb >> 16) as u8,
                    (argb >> 8) as u8,
                    argb as u8,
                    (argb >> 24) as u8,
                ]);
            }
        }
    }
    Bitmap { x: r.x, y: r.y, width, height, rgba }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        // SAFETY: ours, freed once.
        unsafe {
            av::avcodec_free_context(&raw mut self.0);
            av::avcodec_parameters_free(&raw mut self.1);
        }
    }
}

/// How a video encoder is opened.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct VideoSettings {
    pub(crate) encoder: &'static str,
    pub(crate) width: i32,
    pub(crate) height: i32,
    pub(crate) rate: (i32, i32),
    pub(crate) max_rate: Option<i64>,
    pub(crate) preset: &'static str,
    /// Less search than the preset's, for a picture soon. The parameter sets are the same.
    pub(crate) quick: bool,
    pub(crate) pixel_format: AVPixelFormat,
    /// Colour names of primaries, transfer, matrix.
    pub(crate) colors: [Option<String>; 3],
    /// Quality of a still picture (JPEG), else constant quality of x264.
    pub(crate) still: bool,
}

/// How a sound encoder is opened.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AudioSettings {
    pub(crate) encoder: String,
    pub(crate) channels: i32,
    pub(crate) sample_rate: i32,
    pub(crate) bit_rate: i64,
}

/// Ticks a second of encoded video.
pub(crate) const VIDEO_CLOCK: i32 = 90_000;

/// What makes x264 about twice as fast as `veryfast` without another parameter set.
const QUICK: &str = "subme=0:me=dia:rc-lookahead=0:mbtree=0:scenecut=0:b-adapt=0:partitions=none";

/// A colour code, or 2 ("unspecified" in all three tables) for a name that FFmpeg does not know.
fn named(code: c_int) -> c_int {
    if code < 0 { 2 } else { code }
}

/// An encoder.
pub(crate) struct Encoder(*mut av::AVCodecContext);

impl Encoder {
    pub(crate) fn video(s: &VideoSettings) -> Result<Self> {
        // SAFETY: fields of a fresh context, set before it is opened; names are static.
        unsafe {
            let codec = av::avcodec_find_encoder_by_name(c(s.encoder).as_ptr());
            if codec.is_null() {
                return Err(Fail::fault(format!("this FFmpeg has no encoder `{}`", s.encoder)));
            }
            let me = Self(av::avcodec_alloc_context3(codec));
            let x = &mut *me.0;
            x.width = s.width;
            x.height = s.height;
            x.pix_fmt = s.pixel_format;
            x.time_base = av::AVRational { num: 1, den: VIDEO_CLOCK };
            x.framerate = av::AVRational { num: s.rate.0, den: s.rate.1 };
            x.sample_aspect_ratio = av::AVRational { num: 1, den: 1 };
            let [primaries, transfer, matrix] = s.colors.clone().map(|n| n.map(|n| c(&n)));
            if let Some(n) = primaries {
                x.color_primaries = std::mem::transmute::<i32, av::AVColorPrimaries>(named(
                    av::av_color_primaries_from_name(n.as_ptr()),
                ));
            }
            if let Some(n) = transfer {
                x.color_trc = std::mem::transmute::<i32, av::AVColorTransferCharacteristic>(named(
                    av::av_color_transfer_from_name(n.as_ptr()),
                ));
            }
            if let Some(n) = matrix {
                let code = av::av_color_space_from_name(n.as_ptr());
                x.colorspace = std::mem::transmute::<i32, av::AVColorSpace>(if code < 0 { 2 } else { code });
            }
            let mut options = null_mut();
            let mut set = |key: &str, value: &str| {
                av::av_dict_set(&raw mut options, c(key).as_ptr(), c(value).as_ptr(), 0);
            };
            if s.still {
                x.color_range = av::AVColorRange::AVCOL_RANGE_JPEG;
                x.flags |= av::AV_CODEC_FLAG_QSCALE as c_int;
                x.global_quality = 4 * av::FF_QP2LAMBDA;
                x.thread_count = 1;
            } else {
                x.color_range = av::AVColorRange::AVCOL_RANGE_MPEG;
                // Assigning GLOBAL_HEADER alone would drop the default CLOSED_GOP; open groups
                // end Chromium's decoder at the next segment.
                x.flags |= (av::AV_CODEC_FLAG_GLOBAL_HEADER | av::AV_CODEC_FLAG_CLOSED_GOP) as c_int;
                // One encoder makes one segment, whose first picture is its only forced IDR.
                x.gop_size = 600;
                x.thread_count = 0;
                set("preset", s.preset);
                match s.encoder {
                    "libx265" => {
                        // Open groups as above. Its parameter sets stand in the init segment alone.
                        set("x265-params", "log-level=none:open-gop=0:keyint=600:info=0:vbv-init=0.3");
                        set("crf", "24");
                    }
                    _ => {
                        if s.quick {
                            // What stands in the parameter sets (references, B pictures, CABAC, 8x8
                            // transform, weights) stays as the preset has it: the init segment holds for all.
                            set("x264-params", QUICK);
                        }
                        set("profile", "high");
                        set("crf", "22");
                        // Captions in SEI would be copied from the decoder; they go stale with a new cut.
                        set("a53cc", "0");
                    }
                }
                if let Some(rate) = s.max_rate {
                    // Each segment has an encoder of its own, whose buffer (ITU-T H.264 annex C) is as full as this says at
                    // its beginning: what it may spend at once, again and again. A segment of one second takes 1.05 of
                    // the limit, one of three 0.95; with the usual two seconds nine tenths full it was 2.8.
                    x.rc_max_rate = rate / 10 * 9;
                    x.rc_buffer_size = c_int::try_from(rate / 2).unwrap_or(c_int::MAX);
                    x.rc_initial_buffer_occupancy = x.rc_buffer_size / 10 * 3;
                }
            }
            let code = av::avcodec_open2(me.0, codec, &raw mut options);
            av::av_dict_free(&raw mut options);
            check(code, "open the video encoder")?;
            Ok(me)
        }
    }

    pub(crate) fn audio(s: &AudioSettings) -> Result<Self> {
        // SAFETY: as in `video`.
        unsafe {
            let codec = av::avcodec_find_encoder_by_name(c(&s.encoder).as_ptr());
            if codec.is_null() {
                return Err(Fail::request(format!("this FFmpeg has no encoder `{}`", s.encoder)));
            }
            let me = Self(av::avcodec_alloc_context3(codec));
            let x = &mut *me.0;
            x.sample_fmt = s.format();
            x.sample_rate = s.sample_rate;
            av::av_channel_layout_default(&raw mut x.ch_layout, s.channels);
            x.bit_rate = s.bit_rate;
            x.time_base = av::AVRational { num: 1, den: s.sample_rate };
            x.flags |= av::AV_CODEC_FLAG_GLOBAL_HEADER as c_int;
            x.strict_std_compliance = -2;
            x.thread_count = 1;
            check(av::avcodec_open2(me.0, codec, null_mut()), "open the sound encoder")?;
            Ok(me)
        }
    }
    pub(crate) fn send(&mut self, frame: Option<&Frame>) -> Result<()> {
        // SAFETY: open encoder, valid frame or null.
        let code = unsafe { av::avcodec_send_frame(self.0, frame.map_or(null(), |f| f.0)) };
        if code == av::AVERROR_EOF { Ok(()) } else { check(code, "encode").map(drop) }
    }
    pub(crate) fn receive(&mut self, packet: &mut Packet) -> bool {
        // SAFETY: open encoder, valid packet.
        unsafe { av::avcodec_receive_packet(self.0, packet.0) >= 0 }
    }
    /// The parameter sets.
    pub(crate) fn headers(&self) -> &[u8] {
        // SAFETY: `extradata` holds `extradata_size` bytes for as long as the encoder is open.
        unsafe {
            let x = &*self.0;
            if x.extradata.is_null() || x.extradata_size <= 0 {
                &[]
            } else {
                std::slice::from_raw_parts(x.extradata, x.extradata_size as usize)
            }
        }
    }
    /// Samples a frame; 0 where any number will do.
    pub(crate) fn frame_size(&self) -> i32 {
        // SAFETY: field of an open encoder.
        unsafe { (*self.0).frame_size }
    }
    /// Samples by which the encoder's output lags.
    pub(crate) fn padding(&self) -> i32 {
        // SAFETY: field of an open encoder.
        unsafe { (*self.0).initial_padding }
    }
}

impl AudioSettings {
    /// The sample format that the encoder takes.
    pub(crate) fn format(&self) -> AVSampleFormat {
        match self.encoder.as_str() {
            "libopus" => AVSampleFormat::AV_SAMPLE_FMT_FLT,
            "flac" => AVSampleFormat::AV_SAMPLE_FMT_S32,
            _ => AVSampleFormat::AV_SAMPLE_FMT_FLTP,
        }
    }
}

impl Drop for Encoder {
    fn drop(&mut self) {
        // SAFETY: ours, freed once.
        unsafe { av::avcodec_free_context(&raw mut self.0) };
    }
}

/// A filter graph with one picture input and one output.
pub(crate) struct Graph {
    graph: *mut av::AVFilterGraph,
    source: *mut av::AVFilterContext,
    sink: *mut av::AVFilterContext,
}

// SAFETY: as for `Decoder`; the filters belong to the graph.
unsafe impl Send for Graph {}

impl Graph {
    pub(crate) fn new(first: &Frame, chain: &str) -> Result<Self> {
        let (w, h, format) = first.shape();
        // SAFETY: the graph owns all filters; names are static or live through the calls.
        unsafe {
            let sar = (*first.0).sample_aspect_ratio;
            let mut me = Self { graph: av::avfilter_graph_alloc(), source: null_mut(), sink: null_mut() };
            let args = format!(
                "video_size={w}x{h}:pix_fmt={format}:time_base=1/{VIDEO_CLOCK}:pixel_aspect={}/{}",
                sar.num.max(0),
                sar.den.max(1),
            );
            check_of_file(
                av::avfilter_graph_create_filter(
                    &raw mut me.source,
                    av::avfilter_get_by_name(c"buffer".as_ptr()),
                    c"in".as_ptr(),
                    c(&args).as_ptr(),
                    null_mut(),
                    me.graph,
                ),
                "make a picture source",
            )?;
            check(
                av::avfilter_graph_create_filter(
                    &raw mut me.sink,
                    av::avfilter_get_by_name(c"buffersink".as_ptr()),
                    c"out".as_ptr(),
                    null(),
                    null_mut(),
                    me.graph,
                ),
                "make a picture sink",
            )?;
            let mut outputs = av::avfilter_inout_alloc();
            let mut inputs = av::avfilter_inout_alloc();
            (*outputs).name = av::av_strdup(c"in".as_ptr());
            (*outputs).filter_ctx = me.source;
            (*inputs).name = av::av_strdup(c"out".as_ptr());
            (*inputs).filter_ctx = me.sink;
            let code = av::avfilter_graph_parse_ptr(
                me.graph,
                c(chain).as_ptr(),
                &raw mut inputs,
                &raw mut outputs,
                null_mut(),
            );
            av::avfilter_inout_free(&raw mut inputs);
            av::avfilter_inout_free(&raw mut outputs);
            check_of_file(code, "build the picture filters")?;
            check_of_file(av::avfilter_graph_config(me.graph, null_mut()), "set up the picture filters")?;
            Ok(me)
        }
    }
    /// Hands a picture in; `None` drains.
    pub(crate) fn send(&mut self, frame: Option<&mut Frame>) -> Result<()> {
        // SAFETY: a configured graph; the frame's content moves into it.
        let code = unsafe { av::av_buffersrc_add_frame(self.source, frame.map_or(null_mut(), |f| f.0)) };
        check_of_file(code, "filter a picture").map(drop)
    }
    pub(crate) fn receive(&mut self, frame: &mut Frame) -> bool {
        // SAFETY: a configured graph, a valid frame that is emptied first.
        unsafe {
            av::av_frame_unref(frame.0);
            if av::av_buffersink_get_frame(self.sink, frame.0) < 0 {
                return false;
            }
            // Deinterlacers count in half ticks.
            let tb = av::av_buffersink_get_time_base(self.sink);
            let ours = av::AVRational { num: 1, den: VIDEO_CLOCK };
            (*frame.0).pts = av::av_rescale_q((*frame.0).pts, tb, ours);
            true
        }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: ours, freed once; takes its filters along.
        unsafe { av::avfilter_graph_free(&raw mut self.graph) };
    }
}

/// Converts sound to planar floats of another rate and number of channels.
pub(crate) struct Resampler {
    swr: *mut av::SwrContext,
    channels: usize,
    rate: i64,
    from: i64,
    /// Several channels go into one.
    mixes: bool,
}

impl Resampler {
    pub(crate) fn new(frame: &Frame, channels: i32, rate: i32) -> Result<Self> {
        // SAFETY: layouts are values on our stack; swr copies them.
        unsafe {
            let mut from: av::AVChannelLayout = std::mem::zeroed();
            if (*frame.0).ch_layout.order == av::AVChannelOrder::AV_CHANNEL_ORDER_UNSPEC {
                av::av_channel_layout_default(&raw mut from, (*frame.0).ch_layout.nb_channels);
            } else {
                av::av_channel_layout_copy(&raw mut from, &raw const (*frame.0).ch_layout);
            }
            let mut to: av::AVChannelLayout = std::mem::zeroed();
            av::av_channel_layout_default(&raw mut to, channels);
            let mut swr = null_mut();
            let format: AVSampleFormat = std::mem::transmute((*frame.0).format);
            let code = av::swr_alloc_set_opts2(
                &raw mut swr,
                &raw mut to,
                AVSampleFormat::AV_SAMPLE_FMT_FLTP,
                rate,
                &raw mut from,
                format,
                (*frame.0).sample_rate,
                0,
                null_mut(),
            );
            av::av_channel_layout_uninit(&raw mut from);
            check_of_file(code, "set up the resampler")?;
            let me = Self {
                swr,
                channels: channels as usize,
                rate: rate.into(),
                from: (*frame.0).sample_rate.into(),
                mixes: (*frame.0).ch_layout.nb_channels > channels,
            };
            check_of_file(av::swr_init(me.swr), "start the resampler")?;
            Ok(me)
        }
    }
    /// Appends what `frame` gives to the channels of `out`; `None` drains.
    pub(crate) fn convert(&mut self, frame: Option<&Frame>, out: &mut [Vec<f32>]) -> Result<()> {
        let samples = i64::from(frame.map_or(0, Frame::samples));
        let at = out[0].len();
        // SAFETY: each output channel is grown to what swr may write and cut back to what it
        // wrote; input planes are those of a valid frame.
        unsafe {
            let most =
                (av::swr_get_delay(self.swr, self.rate) + samples * self.rate / self.from + 64) as usize;
            let mut planes = Vec::with_capacity(self.channels);
            for channel in out.iter_mut() {
                channel.resize(at + most, 0.0);
                planes.push(channel.as_mut_ptr().add(at).cast::<u8>());
            }
            let input = frame.map_or(null_mut(), |f| (*f.0).extended_data);
            let got =
                av::swr_convert(self.swr, planes.as_mut_ptr(), most as c_int, input.cast(), samples as c_int);
            let got = check_of_file(got, "resample")? as usize;
            for channel in out.iter_mut() {
                channel.truncate(at + got);
            }
        }
        if self.mixes {
            // The centre keeps the level that BS.775 gives it: turning everything down so that the loudest
            // sum fits would take 8 dB off every dialogue. What is too loud is bent instead.
            out.iter_mut().flat_map(|channel| &mut channel[at..]).for_each(|x| *x = bent(*x));
        }
        Ok(())
    }
    /// Samples that are inside, at the output's rate.
    pub(crate) fn delay(&self) -> i64 {
        // SAFETY: an initialised resampler.
        unsafe { av::swr_get_delay(self.swr, self.rate) }
    }
}

/// A sample within full scale: as it is up to -2 dB, from there on ever nearer to 1. Without memory, so that
/// sound is the same wherever decoding began.
fn bent(x: f32) -> f32 {
    const KNEE: f32 = 0.8;
    let over = x.abs() - KNEE;
    if over <= 0.0 { x } else { (KNEE + (1.0 - KNEE) * (over / (1.0 - KNEE)).tanh()).copysign(x) }
}

impl Drop for Resampler {
    fn drop(&mut self) {
        // SAFETY: ours, freed once.
        unsafe { av::swr_free(&raw mut self.swr) };
    }
}

/// A track for the init segment.
pub(crate) enum InitTrack<'a> {
    /// A stream that is copied, with a first packet where the track's description needs one.
    Copied {
        input: &'a Input,
        stream: usize,
        tag: u32,
        extradata: Option<Vec<u8>>,
        packet: Option<&'a Packet>,
    },
    /// The output of an encoder.
    Encoded { encoder: &'a Encoder, packet: Option<&'a Packet> },
}

/// The init segment (`ftyp` and `moov`) that describes these tracks, written by FFmpeg's muxer.
pub(crate) fn init_segment(tracks: &[InitTrack<'_>]) -> Result<Vec<u8>> {
    // SAFETY: the muxer context and its dynamic buffer are freed on every path through `Muxer`;
    // parameters are copied; packets are references that the muxer does not keep.
    unsafe {
        let mut mux = Muxer(null_mut());
        check(
            av::avformat_alloc_output_context2(&raw mut mux.0, null_mut(), c"mp4".as_ptr(), null()),
            "make the mp4 muxer",
        )?;
        (*mux.0).strict_std_compliance = -2;
        check(av::avio_open_dyn_buf(&raw mut (*mux.0).pb), "make a buffer")?;
        for track in tracks {
            let st = av::avformat_new_stream(mux.0, null());
            if st.is_null() {
                return Err(Fail::fault("out of memory"));
            }
            match track {
                InitTrack::Copied { input, stream, tag, extradata, .. } => {
                    let from = input.stream(*stream);
                    check(av::avcodec_parameters_copy((*st).codecpar, (*from).codecpar), "copy parameters")?;
                    (*(*st).codecpar).codec_tag = *tag;
                    if let Some(data) = extradata {
                        let p = av::av_mallocz(data.len() + av::AV_INPUT_BUFFER_PADDING_SIZE as usize)
                            .cast::<u8>();
                        std::ptr::copy_nonoverlapping(data.as_ptr(), p, data.len());
                        av::av_freep((&raw mut (*(*st).codecpar).extradata).cast());
                        (*(*st).codecpar).extradata = p;
                        (*(*st).codecpar).extradata_size = data.len() as c_int;
                    }
                    let sar = av::av_guess_sample_aspect_ratio(input.ctx, from, null_mut());
                    (*st).sample_aspect_ratio = sar;
                    // The container's shape of a pixel goes before the codec's; the muxer refuses two.
                    (*(*st).codecpar).sample_aspect_ratio = sar;
                    (*st).avg_frame_rate = (*from).avg_frame_rate;
                    (*st).time_base = if (*(*from).codecpar).codec_type == av::AVMediaType::AVMEDIA_TYPE_AUDIO
                    {
                        av::AVRational { num: 1, den: (*(*from).codecpar).sample_rate.max(1) }
                    } else {
                        (*from).time_base
                    };
                    for i in 0..(*from).nb_side_data as usize {
                        let side = &*(*from).side_data.add(i);
                        let p = av::av_stream_new_side_data(st, side.type_, side.size);
                        if !p.is_null() {
                            std::ptr::copy_nonoverlapping(side.data, p, side.size);
                        }
                    }
                }
                InitTrack::Encoded { encoder, .. } => {
                    check(av::avcodec_parameters_from_context((*st).codecpar, encoder.0), "copy parameters")?;
                    if (*(*st).codecpar).codec_id == AVCodecID::AV_CODEC_ID_HEVC {
                        // Apple plays HEVC only as hvc1.
                        (*(*st).codecpar).codec_tag = u32::from_le_bytes(*b"hvc1");
                    }
                    (*st).time_base = (*encoder.0).time_base;
                    (*st).sample_aspect_ratio = (*encoder.0).sample_aspect_ratio;
                    (*st).avg_frame_rate = (*encoder.0).framerate;
                }
            }
        }
        let mut options = null_mut();
        // Times of segments are times of the presentation: no edit list may shift them.
        av::av_dict_set(
            &raw mut options,
            c"movflags".as_ptr(),
            c"empty_moov+delay_moov+default_base_moof".as_ptr(),
            0,
        );
        av::av_dict_set(&raw mut options, c"use_editlist".as_ptr(), c"0".as_ptr(), 0);
        av::av_dict_set(&raw mut options, c"fflags".as_ptr(), c"+bitexact".as_ptr(), 0);
        let code = av::avformat_write_header(mux.0, &raw mut options);
        av::av_dict_free(&raw mut options);
        if code < 0 {
            return Err(Fail::unreadable(format!("this codec cannot be put into MP4: {}", error_text(code))));
        }
        for (i, track) in tracks.iter().enumerate() {
            let (InitTrack::Copied { packet: Some(packet), .. }
            | InitTrack::Encoded { packet: Some(packet), .. }) = track
            else {
                continue;
            };
            let mut copy = Packet::new();
            check(av::av_packet_ref(copy.0, packet.0), "copy a packet")?;
            let copy = &mut copy;
            (*copy.0).stream_index = i as c_int;
            (*copy.0).pts = 0;
            (*copy.0).dts = 0;
            check_of_file(av::av_write_frame(mux.0, copy.0), "describe the sound")?;
        }
        check_of_file(av::av_write_frame(mux.0, null_mut()), "write the init segment")?;
        let mut data = null_mut();
        let len = av::avio_close_dyn_buf((*mux.0).pb, &raw mut data);
        (*mux.0).pb = null_mut();
        let bytes = std::slice::from_raw_parts(data, len.max(0) as usize).to_vec();
        av::av_free(data.cast());
        let end = end_of_moov(&bytes).ok_or_else(|| Fail::unreadable("the muxer wrote no moov for it"))?;
        Ok(bytes[..end].to_vec())
    }
}

struct Muxer(*mut av::AVFormatContext);

impl Drop for Muxer {
    fn drop(&mut self) {
        // SAFETY: ours; a dynamic buffer that is still attached is closed and freed first.
        unsafe {
            if !self.0.is_null() {
                if !(*self.0).pb.is_null() {
                    let mut data = null_mut();
                    av::avio_close_dyn_buf((*self.0).pb, &raw mut data);
                    av::av_free(data.cast());
                    (*self.0).pb = null_mut();
                }
                av::avformat_free_context(self.0);
            }
        }
    }
}

fn end_of_moov(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let size = u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?) as usize;
        let name = bytes.get(at + 4..at + 8)?;
        at += size.max(8);
        if name == b"moov" {
            return (at <= bytes.len()).then_some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_transcode::protocol::FailKind;

    #[test]
    fn what_a_file_asks_for_is_its_own_fault_and_what_the_machine_lacks_is_not() {
        let kind = |code| check_of_file(code, "open a decoder").map_err(|fail| fail.kind);
        assert_eq!(kind(3), Ok(3));
        for code in [
            av::AVERROR_INVALIDDATA,
            av::AVERROR_PATCHWELCOME,
            av::AVERROR(libc::EPERM),
            av::AVERROR(libc::EINVAL),
        ] {
            assert_eq!(kind(code), Err(FailKind::Unreadable), "{}", error_text(code));
        }
        for code in [libc::ENOMEM, libc::EIO, libc::EMFILE] {
            assert_eq!(kind(av::AVERROR(code)), Err(FailKind::Fault), "{}", error_text(av::AVERROR(code)));
        }
    }
}
