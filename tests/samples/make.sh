#!/usr/bin/env bash
# make.sh: builds a compact synthetic media library for tests. No network.
#
#   make.sh [-o OUT] [-j JOBS] [-g GROUP,GROUP…] [-k] [--verify] [--list]
#     -o   output folder (default ./samples); its managed sub-folders are replaced
#     -j   jobs at once (default: number of CPUs)
#     -g   only these groups: video audio subs tv music photos names broken seek
#     -k   keep the scratch folder
#     --verify   compare manifest.json with ffprobe and exit (non-zero on a mismatch)
#     --list     print the sample functions and exit
#
# Needs: ffmpeg >= 5.1 with libx264 libx265 libvpx libsvtav1 libopus libmp3lame libvorbis
# libtheora libxvid, mkvtoolnix, python3 (standard library only), iconv, a DejaVu font.
# Debian: apt-get install ffmpeg mkvtoolnix python3 fonts-dejavu-core
#
# Every picture carries its own time stamp twice: as text and as a bar code in the top tenth
# of the frame (see read_clock.py); every clock tone has a pitch that tells its second. So a
# test can tell from decoded frames and samples where a seek really landed and whether sound
# and picture agree. Truth about each file goes to OUT/manifest.json (declared here by hand,
# not copied from ffprobe; --verify holds the two against each other).
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
OUT=./samples JOBS=$(nproc) GROUPS_WANTED="" KEEP=0 VERIFY=0 LIST=0
while [ $# -gt 0 ]; do case $1 in
  -o) OUT=$2; shift 2;; -j) JOBS=$2; shift 2;; -g) GROUPS_WANTED=",$2,"; shift 2;;
  -k) KEEP=1; shift;; --verify) VERIFY=1; shift;; --list) LIST=1; shift;;
  -h|--help) sed -n '2,22p' "$0"; exit 0;; *) echo "unknown option $1" >&2; exit 2;; esac; done
PY="python3 $here/sample_tools.py"
if [ $VERIFY = 1 ]; then exec $PY verify "$OUT"; fi
for t in ffmpeg ffprobe mkvmerge mkvextract mkvpropedit python3 iconv; do
  command -v $t >/dev/null || { echo "missing: $t" >&2; exit 3; }; done
mkdir -p "$OUT" || exit 3
OUT=$(cd "$OUT" && pwd)
TMP=$(mktemp -d "$OUT/.tmp.XXXXXX") || exit 3
REC=$TMP/records FAILED=$TMP/failed; : >"$REC"; : >"$FAILED"
trap '[ $KEEP = 1 ] || rm -rf "$TMP"' EXIT
FONT=/usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf
[ -f $FONT ] || FONT=$(fc-match -f '%{file}' 'monospace' 2>/dev/null)
[ -f "$FONT" ] || { echo "no font found (install fonts-dejavu-core)" >&2; exit 3; }

ff() { ffmpeg -nostdin -hide_banner -v error -y "$@"; }
US=$'\x1f'
# rec PATH KIND CONTAINER DURATION STREAMS EXPECT [FEATURES] [NOTE]
#   STREAMS: specs joined by ';'  EXPECT: k=v joined by '|'   (see sample_tools.py)
rec() { printf "%s$US%s$US%s$US%s$US%s$US%s$US%s$US%s\n" "${1#"$OUT"/}" "$2" "$3" "$4" "$5" "$6" "${7-}" "${8-}" >>"$REC"; }
# bars W H: filters that burn the bar code and the text clock
bars() {
  local w=$1 h=$2 cw=$(($1/32)) ch=$(($2/10/2*2)) i f T='floor(t*1000+0.5)'
  f="drawbox=x=0:y=0:w=iw:h=$ch:color=black:t=fill,drawbox=x=$cw:y=0:w=$cw:h=$ch:color=white:t=fill"
  for i in {0..23}; do f+=",drawbox=x=$((cw*(25-i))):y=0:w=$cw:h=$ch:color=white:t=fill:enable='bitand($T,$((1<<i)))'"; done
  for i in {0..3}; do f+=",drawbox=x=$((cw*(29-i))):y=0:w=$cw:h=$ch:color=white:t=fill:enable='bitand(mod($T,13),$((1<<i)))'"; done
  echo "$f,drawtext=fontfile=$FONT:text='%{pts\\:hms}':fontsize=$((h/8)):x=(w-tw)/2:y=$((ch+h/40)):fontcolor=white:box=1:boxcolor=black@0.8"; }
# V W H FPS SECONDS [SOURCE]: a lavfi picture source with the clock on it
V() { local s=${5:-testsrc2}; [[ $s = *=* ]] && s+=: || s+==; echo "${s}s=$1x$2:r=$3:d=$4,$(bars $1 $2)"; }
C="-stream_loop -1 -i $TMP/clock.wav"             # the clock tone, endless: cut with -t
X="-c:v libx264 -preset veryfast -crf 30 -threads 1 -pix_fmt yuv420p"
X5="-c:v libx265 -preset ultrafast -threads 1"
x5p() { echo "log-level=none:pools=1:frame-threads=1:${1-}"; }
AAC="-c:a aac -b:a 64k -ac 2"
M() { mkdir -p "$OUT/Movies/$1 ($2)"; echo "$OUT/Movies/$1 ($2)/$1 ($2)"; }
movie() { echo "type=movie|title=$1|year=$2"; }
v360="640x360,25,yuv420p" AC2="a,aac,LC,2,48000"
poster() { ff -f lavfi -i "gradients=s=400x600:d=1:c0=$2:c1=black:n=2:seed=7,drawtext=fontfile=$FONT:text='${3-}':fontsize=30:fontcolor=white:x=20:y=500" -frames:v 1 -q:v 4 "$1"; }
fanart() { ff -f lavfi -i "gradients=s=960x540:d=1:c0=$2:c1=black:n=2:seed=7" -frames:v 1 -q:v 5 "$1"; }
nfo() { # nfo FILE TITLE YEAR [EXTRA XML]
  printf '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n<movie>\n  <title>%s</title>\n  <year>%s</year>\n  <plot>A made-up film for tests.</plot>\n  <runtime>1</runtime>\n  <genre>Test</genre>\n  <uniqueid type="test" default="true">t-%s</uniqueid>\n  %s\n</movie>\n' "$2" "$3" "$3" "${4-}" >"$1"; }

prepare() {
  # 100 s clock tone: during second s the pitch is 400 + 8*(s mod 100) Hz
  ff -f lavfi -i "aevalsrc='0.25*sin(2*PI*(400+8*floor(t))*t)':s=48000:d=100" -c:a pcm_s16le $TMP/clock.wav
  ff -f lavfi -i "sine=f=1000:r=48000:d=100" -af volume=2 $TMP/t1000.wav   # "French"
  ff -f lavfi -i "sine=f=1500:r=48000:d=100" -af volume=2 $TMP/t1500.wav   # commentary
  # one pitch a channel: FL300 FR400 FC500 LFE60 BL600 BR700 SL800 SR900
  local lay n fs i a
  for lay in 5.1:6:"300 400 500 60 600 700" 7.1:8:"300 400 500 60 600 700 800 900"; do
    n=$(cut -d: -f2 <<<"$lay"); fs=$(cut -d: -f3 <<<"$lay"); a=(); i=0
    for f in $fs; do a+=(-f lavfi -i "sine=f=$f:r=48000:d=12"); done
    ff "${a[@]}" -filter_complex "join=inputs=$n:channel_layout=${lay%%:*},volume=2" -c:a pcm_s16le $TMP/ch${lay%%:*}.wav
  done
  ff -f lavfi -i "$(V 640 360 25 12)" $C -t 12 $X -g 50 $AAC $TMP/base.mkv           # 12 s, GOP 2 s
  ff -f lavfi -i "$(V 320 180 25 6)" $C -t 6 $X -g 50 $AAC -b:a 48k $TMP/tiny.mkv
  poster $TMP/cover.jpg 0x8844aa cover; poster $TMP/cover2.jpg 0x2266aa album
  $PY subs $TMP                      # en.srt fr.srt … .ass .vtt chapters.txt pictures for PGS
  ff -f lavfi -i "color=c=black:s=640x60:d=1,drawtext=fontfile=$FONT:text='BITMAP CUE':fontsize=40:fontcolor=white:x=(w-tw)/2:y=8" -frames:v 1 -pix_fmt gray -f rawvideo $TMP/cue.gray
  $PY pgs $TMP/cue.gray 640 60 640 360 $TMP/pgs.sup
}

# ------------------------------------------------------------------ group: video
s_video_mp4_faststart() { local d p; p=$(M "Amber Coast" 2001) d=$(dirname "$p")
  ff -i $TMP/base.mkv -c copy -movflags +faststart -metadata title="Amber Coast" -metadata date=2001 "$p.mp4"
  rec "$p.mp4" video mp4 12 "v,h264,High,$v360;$AC2" "$(movie 'Amber Coast' 2001)" faststart
  nfo "$p.nfo" "Amber Coast" 2001 '<set><name>Coast Collection</name></set>'
  poster "$d/poster.jpg" 0xaa6622 'Amber Coast'; fanart "$d/fanart.jpg" 0xaa6622
  ff -i $TMP/tiny.mkv -c copy -metadata comment=trailer "$p-trailer.mp4"
  rec "$p-trailer.mp4" video mp4 6 "v,h264,High,320x180,25,yuv420p;$AC2" "type=extra|extra=trailer|of=Amber Coast"
  mkdir -p "$d/trailers" "$d/featurettes" "$d/deleted scenes" "$d/behind the scenes" "$d/extras"
  local i=0 f; for f in "trailers/Teaser.mp4:trailer" "featurettes/Making Of.mkv:featurette" "deleted scenes/S01E01 Trap.mkv:deletedscene" "behind the scenes/On Set.mp4:behindthescenes" "extras/Amber.Coast.2001.Gag.Reel.mkv:extra"; do
    i=$((i+1)); ff -i $TMP/tiny.mkv -c copy -metadata comment="extra $i" "$d/${f%:*}"
    rec "$d/${f%:*}" video "$([[ ${f%:*} = *.mp4 ]] && echo mp4 || echo mkv)" 6 "v,h264,High,320x180,25,yuv420p;$AC2" "type=extra|extra=${f#*:}|of=Amber Coast"; done
  ff -i $TMP/tiny.mkv -c copy -metadata comment=sample "$d/sample.mp4"
  rec "$d/sample.mp4" video mp4 6 "v,h264,High,320x180,25,yuv420p;$AC2" "type=extra|extra=sample|of=Amber Coast" "" "must not show up as a film"; }
s_video_mp4_moov_end() { local p; p=$(M "Birch Road" 2002); ff -i $TMP/base.mkv -c copy "$p.mp4"
  rec "$p.mp4" video mp4 12 "v,h264,High,$v360;$AC2" "$(movie 'Birch Road' 2002)" moov_at_end; }
s_video_mp4_fragmented() { local p; p=$(M "Cinder Lake" 2003)
  ff -i $TMP/base.mkv -c copy -movflags +empty_moov+frag_keyframe+default_base_moof "$p.mp4"
  rec "$p.mp4" video mp4 12 "v,h264,High,$v360;$AC2" "$(movie 'Cinder Lake' 2003)" "fragmented,no_sidx" "duration only from fragments"
  p=$(M "Cinder Lake Two" 2004); ff -i $TMP/base.mkv -c copy -movflags +frag_keyframe+default_base_moof+dash+global_sidx "$p.mp4"
  rec "$p.mp4" video mp4 12 "v,h264,High,$v360;$AC2" "$(movie 'Cinder Lake Two' 2004)" "fragmented,sidx"; }
s_video_mkv_full() { local p d; p=$(M "Delta Night" 2005) d=$(dirname "$p")
  ff -f lavfi -i "$(V 640 360 25 60)" $C -stream_loop -1 -i $TMP/t1000.wav -stream_loop -1 -i $TMP/t1500.wav -map 0 -map 1 -map 2 -map 3 -t 60 $X -g 125 \
     -c:a:0 ac3 -b:a:0 96k -c:a:1 aac -b:a:1 48k -c:a:2 libmp3lame -b:a:2 48k $TMP/delta.mkv
  ff -fix_sub_duration -copyts -i $TMP/pgs.sup -c:s dvdsub -s 640x360 $TMP/vob.mkv
  mkvmerge -q -o "$p.mkv" --title "Delta Night" \
    --language 0:und --language 1:eng --track-name 1:"English 1.0" --default-track-flag 1:1 --language 2:fra --track-name 2:"Français" --default-track-flag 2:0 \
    --language 3:eng --track-name 3:"Commentary" --default-track-flag 3:0 --commentary-flag 3:1 $TMP/delta.mkv \
    --language 0:eng --track-name 0:"English" --default-track-flag 0:1 $TMP/en.srt \
    --language 0:eng --track-name 0:"Signs" --forced-display-flag 0:1 --default-track-flag 0:0 $TMP/en.forced.srt \
    --language 0:eng --track-name 0:"English SDH" --hearing-impaired-flag 0:1 --default-track-flag 0:0 $TMP/en.sdh.srt \
    --language 0:fra --default-track-flag 0:0 $TMP/fr.srt \
    --language 0:jpn --track-name 0:"Styled" --default-track-flag 0:0 $TMP/styled.ass \
    --language 0:eng --track-name 0:"PGS" --default-track-flag 0:0 $TMP/pgs.sup \
    --language 0:deu --track-name 0:"VobSub" --default-track-flag 0:0 --compression 0:zlib $TMP/vob.mkv \
    --chapters $TMP/chapters.txt --attachment-mime-type font/ttf --attachment-name DejaVuSansMono.ttf --attach-file $FONT \
    --attachment-mime-type image/jpeg --attachment-name cover.jpg --attach-file $TMP/cover.jpg >/dev/null
  rec "$p.mkv" video mkv 60 "v,h264,High,$v360;a,ac3,,1,48000,lang=eng,disp=default,title=English 1.0;a,aac,LC,1,48000,lang=fre;a,mp3,,1,48000,lang=eng,disp=comment,title=Commentary;s,subrip,lang=eng,disp=default;s,subrip,lang=eng,disp=forced,title=Signs;s,subrip,lang=eng,disp=hearing_impaired;s,subrip,lang=fre;s,ass,lang=jpn;s,hdmv_pgs_subtitle,lang=eng;s,dvd_subtitle,lang=ger;t,ttf,name=DejaVuSansMono.ttf;p,mjpeg,400x600" \
    "$(movie 'Delta Night' 2005)|chapters=5" "cues,attachments,chapters" "eng = clock tone, fra = 1000 Hz, commentary = 1500 Hz"
  nfo "$d/movie.nfo" "Delta Night" 2005; poster "$p-poster.jpg" 0x224488 'Delta Night'; fanart "$p-fanart.jpg" 0x224488
  (cd $TMP && mkvextract vob.mkv tracks 0:"$p.de.idx" >/dev/null); cp $TMP/pgs.sup "$p.en.sup"
  rec "$p.de.idx" sidecar vobsub - "s,dvd_subtitle" "of=Delta Night|lang=de"; rec "$p.en.sup" sidecar sup - "s,hdmv_pgs_subtitle" "of=Delta Night|lang=en"; }
s_video_mkv_nocues() { local p; p=$(M "Ember Field" 2006)
  mkvmerge -q -o "$p.mkv" --no-cues --clusters-in-meta-seek --cluster-length 2000ms $TMP/base.mkv >/dev/null
  rec "$p.mkv" video mkv 12 "v,h264,High,$v360;$AC2" "$(movie 'Ember Field' 2006)" no_cues
  p=$(M "Fallow Moon" 2007); ff -i $TMP/base.mkv -c copy -f matroska -live 1 - | cat >"$p.mkv"
  rec "$p.mkv" video mkv - "v,h264,High,$v360;$AC2" "$(movie 'Fallow Moon' 2007)" "unknown_size,no_duration,no_cues" "live style; true length 12 s"; }
s_video_webm_vp9() { local p; p=$(M "Glass Orchard" 2008)
  ff -f lavfi -i "$(V 640 360 25 12)" $C -t 12 -c:v libvpx-vp9 -deadline realtime -cpu-used 8 -b:v 300k -g 50 -threads 1 -pix_fmt yuv420p -c:a libopus -b:a 48k -ac 2 "$p.webm"
  rec "$p.webm" video webm 12 "v,vp9,Profile 0,$v360;a,opus,,2,48000" "$(movie 'Glass Orchard' 2008)"; }
s_video_webm_vp8() { local p; p=$(M "Hollow Pine" 2009)
  ff -f lavfi -i "$(V 640 360 25 12)" $C -t 12 -c:v libvpx -deadline realtime -cpu-used 8 -b:v 300k -g 50 -threads 1 -pix_fmt yuv420p -c:a libvorbis -ac 2 "$p.webm"
  rec "$p.webm" video webm 12 "v,vp8,,$v360;a,vorbis,,2,48000" "$(movie 'Hollow Pine' 2009)"; }
s_video_av1() { local p; p=$(M "Iron Meadow" 2010)
  SVT_LOG=0 ff -f lavfi -i "$(V 640 360 25 10)" $C -t 10 -c:v libsvtav1 -preset 12 -crf 45 -g 50 -svtav1-params lp=1 -pix_fmt yuv420p -c:a libopus -b:a 48k -ac 2 "$p.webm" 2>/dev/null
  rec "$p.webm" video webm 10 "v,av1,Main,$v360;a,opus,,2,48000" "$(movie 'Iron Meadow' 2010)"
  p=$(M "Ivory Gate" 2011); SVT_LOG=0 ff -f lavfi -i "$(V 640 360 25 8)" $C -t 8 -c:v libsvtav1 -preset 12 -crf 45 -g 50 -svtav1-params lp=1 -pix_fmt yuv420p10le $AAC "$p.mp4" 2>/dev/null
  rec "$p.mp4" video mp4 8 "v,av1,Main,640x360,25,yuv420p10le;$AC2" "$(movie 'Ivory Gate' 2011)" 10bit; }
s_video_h264_profiles() { local p
  p=$(M "Jade Tower" 2012); ff -f lavfi -i "$(V 640 360 25 8)" $C -t 8 $X -profile:v main -g 50 -c:a libmp3lame -q:a 6 -ac 2 "$p.mp4"
  rec "$p.mp4" video mp4 8 "v,h264,Main,$v360;a,mp3,,2,48000" "$(movie 'Jade Tower' 2012)"
  p=$(M "Kite Harbor" 2013); ff -f lavfi -i "$(V 320 240 15 8)" $C -t 8 $X -profile:v baseline -level 3.0 -g 30 -c:a aac -ac 1 -ar 44100 "$p.mp4"
  rec "$p.mp4" video mp4 8 "v,h264,Constrained Baseline,320x240,15,yuv420p;a,aac,LC,1,44100" "$(movie 'Kite Harbor' 2013)"
  p=$(M "Low Tide" 2014); ff -f lavfi -i "$(V 640 360 25 8)" $C -t 8 $X -pix_fmt yuv420p10le -g 50 -c:a flac -ac 2 "$p.mkv"
  rec "$p.mkv" video mkv 8 "v,h264,High 10,640x360,25,yuv420p10le;a,flac,,2,48000" "$(movie 'Low Tide' 2014)" 10bit "browsers cannot decode High 10"
  p=$(M "Mesa Line" 2015); ff -f lavfi -i "$(V 640 360 25 8)" $C -t 8 $X -pix_fmt yuv422p10le -g 50 -c:a pcm_s24le -ac 2 "$p.mov"
  rec "$p.mov" video mov 8 "v,h264,High 4:2:2,640x360,25,yuv422p10le;a,pcm_s24le,,2,48000" "$(movie 'Mesa Line' 2015)" "422,10bit"
  p=$(M "North Quay" 2016); ff -f lavfi -i "$(V 640 360 25 8),format=yuv444p,crop=321:181:0:0" $C -t 8 $X -pix_fmt yuv444p -g 50 $AAC "$p.mp4"
  rec "$p.mp4" video mp4 8 "v,h264,High 4:4:4 Predictive,321x181,25,yuv444p;$AC2" "$(movie 'North Quay' 2016)" "444,odd_size" "bar code is cropped: clock not readable"
  p=$(M "Many Refs" 1954); ff -f lavfi -i "$(V 640 360 25 8)" $C -t 8 $X -x264-params ref=16:bframes=8 -level 5.1 -g 100 $AAC "$p.mkv"
  rec "$p.mkv" video mkv 8 "v,h264,High,$v360,level=51,refs=16;$AC2" "$(movie 'Many Refs' 1954)" "refs16,level51"
  p=$(M "Full Range" 1955); ff -f lavfi -i "$(V 640 360 25 6)" $C -t 6 $X -pix_fmt yuvj420p -color_range pc -g 50 $AAC "$p.mp4"
  rec "$p.mp4" video mp4 6 "v,h264,High,640x360,25,yuvj420p,range=pc;$AC2" "$(movie 'Full Range' 1955)" full_range; }
s_video_rates() { local p
  p=$(M "Film Rate" 1956); ff -f lavfi -i "$(V 640 360 24000/1001 65)" $C -t 65 $X -g 72 -keyint_min 72 -sc_threshold 0 $AAC "$p.mkv"
  rec "$p.mkv" video mkv 65 "v,h264,High,640x360,24000/1001,yuv420p;$AC2" "$(movie 'Film Rate' 1956)" "fps23976" "key frames every 3.003 s: a 3 s grid does not fit"
  p=$(M "Fast Frame" 1957); ff -f lavfi -i "$(V 1280 720 60 5)" $C -t 5 $X -preset ultrafast -g 120 $AAC "$p.mp4"
  rec "$p.mp4" video mp4 5 "v,h264,,1280x720,60,yuv420p;$AC2" "$(movie 'Fast Frame' 1957)" fps60
  p=$(M "Red Lantern Bay" 1993); ff -f lavfi -i "$(V 640 360 60 15),select='if(lt(t,5),1,if(lt(t,10),not(mod(n,2)),not(mod(n,5))))'" $C -t 15 -vsync vfr $X -g 120 $AAC "$p.mkv"
  rec "$p.mkv" video mkv 15 "v,h264,High,640x360,-,yuv420p;$AC2" "$(movie 'Red Lantern Bay' 1993)" "vfr" "60 fps, then 30, then 12"
  local q; q=$(M "Red Lantern Bay Two" 1994); ff -i "$p.mkv" -c copy "$q.mp4"
  rec "$q.mp4" video mp4 15 "v,h264,High,640x360,-,yuv420p;$AC2" "$(movie 'Red Lantern Bay Two' 1994)" "vfr"; }
s_video_gop() { local p
  p=$(M "Pale River" 1990); ff -f lavfi -i "$(V 640 360 25 60)" $C -t 60 $X -g 100000 -keyint_min 100000 -sc_threshold 0 $AAC "$p.mkv"
  rec "$p.mkv" video mkv 60 "v,h264,High,$v360;$AC2" "$(movie 'Pale River' 1990)" "one_keyframe" "the only key frame is the first"
  p=$(M "Quiet Ridge" 1991); ff -f lavfi -i "$(V 640 360 25 20)" $C -t 20 $X -x264-params open-gop=1:keyint=50:min-keyint=50:scenecut=0:bframes=3 $AAC "$p.mkv"
  rec "$p.mkv" video mkv 20 "v,h264,High,$v360;$AC2" "$(movie 'Quiet Ridge' 1991)" "open_gop"
  p=$(M "Quiet Ridge HEVC" 1992); ff -f lavfi -i "$(V 640 360 25 20)" $C -t 20 $X5 -x265-params "$(x5p open-gop=1:keyint=50:min-keyint=50:scenecut=0:bframes=3)" -pix_fmt yuv420p -tag:v hvc1 $AAC "$p.mp4"
  rec "$p.mp4" video mp4 20 "v,hevc,Main,$v360,tag=hvc1;$AC2" "$(movie 'Quiet Ridge HEVC' 1992)" "open_gop,cra" "later key frames are CRA with leading pictures"
  p=$(M "Jagged Keys" 1989); ff -f lavfi -i "$(V 640 360 25 40)" $C -t 40 $X -g 100000 -sc_threshold 0 -force_key_frames 0,1.2,7.6,8,13.4,14.04,27.4,27.8,39.2 $AAC "$p.mkv"
  rec "$p.mkv" video mkv 40 "v,h264,High,$v360,keys=0 1.2 7.6 8 13.4 14.04 27.4 27.8 39.2;$AC2" "$(movie 'Jagged Keys' 1989)" "irregular_keyframes"; }
s_video_interlaced() { local p
  p=$(M "Opal Street" 2017); ff -f lavfi -i "testsrc2=s=720x576:r=50:d=8,tinterlace=interleave_top,$(bars 720 576),setsar=64/45" $C -t 8 $X -flags +ilme+ildct -field_order tt -x264-params tff=1:keyint=25 -c:a ac3 -ac 2 -b:a 96k "$p.mkv"
  rec "$p.mkv" video mkv 8 "v,h264,High,720x576,25,yuv420p,field=tt,sar=64:45;a,ac3,,2,48000" "$(movie 'Opal Street' 2017)" "interlaced,anamorphic" "clock drawn after interlacing"
  p=$(M "Opal Street Two" 2018); ff -f lavfi -i "testsrc2=s=1920x1080:r=50:d=4,tinterlace=interleave_top,$(bars 1920 1080)" $C -t 4 -c:v libx264 -preset ultrafast -crf 32 -threads 2 -pix_fmt yuv420p -flags +ilme+ildct -x264-params tff=1:keyint=25 -c:a ac3 -b:a 128k -ac 2 -f mpegts "$p.ts"
  rec "$p.ts" video mpegts 4 "v,h264,,1920x1080,25,yuv420p,field=tt;a,ac3,,2,48000" "$(movie 'Opal Street Two' 2018)" "interlaced,1080i"; }
s_video_geometry() { local p
  p=$(M "Tall Grass" 1995); ff -f lavfi -i "$(V 720 576 25 8),setsar=64/45" $C -t 8 $X -g 50 $AAC "$p.mkv"
  rec "$p.mkv" video mkv 8 "v,h264,High,720x576,25,yuv420p,sar=64:45,dar=16:9;$AC2" "$(movie 'Tall Grass' 1995)" anamorphic
  p=$(M "Tall Grass Narrow" 1996); ff -f lavfi -i "$(V 720 480 30000/1001 8),setsar=8/9" $C -t 8 $X -g 60 $AAC "$p.mp4"
  rec "$p.mp4" video mp4 8 "v,h264,High,720x480,30000/1001,yuv420p,sar=8:9,dar=4:3;$AC2" "$(movie 'Tall Grass Narrow' 1996)" anamorphic
  p=$(M "Umber Hall" 1997); ff -f lavfi -i "$(V 640 360 25 6),scale=321:181" $C -t 6 -c:v libvpx-vp9 -deadline realtime -cpu-used 8 -b:v 200k -threads 1 -pix_fmt yuv420p -c:a libopus -ac 2 "$p.mkv"
  rec "$p.mkv" video mkv 6 "v,vp9,Profile 0,321x181,25,yuv420p;a,opus,,2,48000" "$(movie 'Umber Hall' 1997)" odd_size
  p=$(M "Umber Hall Two" 1998); ff -f lavfi -i "$(V 1366 768 25 5)" $C -t 5 $X -preset ultrafast $AAC "$p.mp4"
  rec "$p.mp4" video mp4 5 "v,h264,,1366x768,25,yuv420p;$AC2" "$(movie 'Umber Hall Two' 1998)" "not_mod16"
  p=$(M "Display Dims" 1952); mkvmerge -q -o "$p.mkv" --display-dimensions 0:853x360 $TMP/base.mkv >/dev/null
  rec "$p.mkv" video mkv 12 "v,h264,High,$v360,sar=853:640;$AC2" "$(movie 'Display Dims' 1952)" "container_aspect" "only the container says it is wide"
  p=$(M "Pixel Crop" 1953); mkvmerge -q -o "$p.mkv" --cropping 0:16,36,16,0 $TMP/base.mkv >/dev/null
  rec "$p.mkv" video mkv 12 "v,h264,High,$v360;$AC2" "$(movie 'Pixel Crop' 1953)" "container_crop"
  local r; for r in 90 180 270; do p=$(M "Silver Fern $r" 1994); turned $r "$p.mp4"
    rec "$p.mp4" video mp4 6 "v,h264,High,$v360,rot=$r;$AC2" "$(movie "Silver Fern $r" 1994)" "rotated" "rotation: clockwise turn that shows it upright"; done; }
turned() { # turned CLOCKWISE_DEGREES FILE [ARGS]: stored lying, upright after the turn
  local r=$1 o=$2 src f; shift 2
  case $r in 90) src=$(V 360 640 25 6) f=transpose=2;; 180) src=$(V 640 360 25 6) f=hflip,vflip;; 270) src=$(V 360 640 25 6) f=transpose=1;; esac
  ff -f lavfi -i "$src,$f" $C -t 6 $X -g 50 $AAC $TMP/turn$r.$$.mp4; ff -i $TMP/turn$r.$$.mp4 -c copy -metadata:s:v:0 rotate=$((360-r)) "$@" "$o"; }
s_video_hevc() { local p
  p=$(M "Velvet Mine" 1998); ff -f lavfi -i "$(V 640 360 25 10)" $C -t 10 $X5 -x265-params "$(x5p keyint=50:open-gop=0)" -crf 32 -pix_fmt yuv420p -tag:v hvc1 $AAC -movflags +faststart "$p.mp4"
  rec "$p.mp4" video mp4 10 "v,hevc,Main,$v360,tag=hvc1;$AC2" "$(movie 'Velvet Mine' 1998)" faststart
  local q; q=$(M "Velvet Mine Hev" 1999); ff -i "$p.mp4" -c copy -tag:v hev1 "$q.mp4"
  rec "$q.mp4" video mp4 10 "v,hevc,Main,$v360,tag=hev1;$AC2" "$(movie 'Velvet Mine Hev' 1999)" "" "hev1: some clients take only hvc1"
  q=$(M "Velvet Mine Ten" 2000); ff -f lavfi -i "$(V 640 360 25 8)" $C -t 8 $X5 -x265-params "$(x5p keyint=50:open-gop=0)" -crf 32 -pix_fmt yuv420p10le $AAC "$q.mkv"
  rec "$q.mkv" video mkv 8 "v,hevc,Main 10,640x360,25,yuv420p10le;$AC2" "$(movie 'Velvet Mine Ten' 2000)" "10bit,sdr"; }
HDR10="hdr10=1:repeat-headers=1:colorprim=bt2020:transfer=smpte2084:colormatrix=bt2020nc:master-display=G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,50):max-cll=1000,400"
COL10="-color_primaries bt2020 -color_trc smpte2084 -colorspace bt2020nc"
s_video_hdr() { local p q
  p=$(M "White Comet" 2018); ff -f lavfi -i "$(V 3840 2160 24 2 smptehdbars)" -i $TMP/ch5.1.wav -t 2 $X5 -threads 2 -x265-params "log-level=none:keyint=24:open-gop=0:$HDR10" -crf 36 -pix_fmt yuv420p10le $COL10 -c:a eac3 -b:a 192k "$p.mkv"
  rec "$p.mkv" video mkv 2 "v,hevc,Main 10,3840x2160,24,yuv420p10le,trc=smpte2084,prim=bt2020,mtx=bt2020nc,hdr10=1;a,eac3,,6,48000" "$(movie 'White Comet' 2018)" "hdr10,4k"
  q=$(M "Xenon Bloom" 2019); ff -f lavfi -i "$(V 640 360 25 8)" $C -t 8 $X5 -x265-params "$(x5p keyint=50:open-gop=0:colorprim=bt2020:transfer=arib-std-b67:colormatrix=bt2020nc)" -pix_fmt yuv420p10le -color_primaries bt2020 -color_trc arib-std-b67 -colorspace bt2020nc -tag:v hvc1 $AAC "$q.mp4"
  rec "$q.mp4" video mp4 8 "v,hevc,Main 10,640x360,25,yuv420p10le,trc=arib-std-b67,prim=bt2020;$AC2" "$(movie 'Xenon Bloom' 2019)" hlg
  ff -f lavfi -i "$(V 640 360 24 8)" $C -t 8 $X5 -x265-params "$(x5p keyint=48:open-gop=0:$HDR10)" -pix_fmt yuv420p10le $COL10 -tag:v hvc1 $AAC $TMP/h10.mp4
  q=$(M "Xenon Small" 2017); cp $TMP/h10.mp4 "$q.mp4"
  rec "$q.mp4" video mp4 8 "v,hevc,Main 10,640x360,24,yuv420p10le,trc=smpte2084,prim=bt2020,hdr10=1;$AC2" "$(movie 'Xenon Small' 2017)" hdr10
  q=$(M "Yarrow Peak" 2020); $PY dovi $TMP/h10.mp4 "$q.mp4" 8 1
  rec "$q.mp4" video mp4 8 "v,hevc,Main 10,640x360,24,yuv420p10le,trc=smpte2084,dv=8.1;$AC2" "$(movie 'Yarrow Peak' 2020)" "dolby_vision,signalled_only" "profile 8.1 record in the container, no RPU in the stream: plays as HDR10"
  ff -i "$q.mp4" -c copy -strict -2 "$q.mkv"
  rec "$q.mkv" video mkv 8 "v,hevc,Main 10,640x360,24,yuv420p10le,trc=smpte2084,dv=8.1;$AC2" "$(movie 'Yarrow Peak' 2020)|version=mkv" "dolby_vision,signalled_only"
  q=$(M "Yarrow Peak Five" 2021); $PY dovi $TMP/h10.mp4 "$q.mp4" 5 0
  rec "$q.mp4" video mp4 8 "v,hevc,Main 10,640x360,24,yuv420p10le,dv=5.0;$AC2" "$(movie 'Yarrow Peak Five' 2021)" "dolby_vision,signalled_only" "profile 5 record: no HDR10 or SDR fallback; must never be direct played to a client without Dolby Vision"; }
s_video_legacy() { local p
  p=$(M "Zephyr Bridge" 1980); ff -f lavfi -i "$(V 720 480 30000/1001 8),setsar=8/9" $C -t 8 -c:v mpeg2video -b:v 1200k -maxrate 4000k -bufsize 1835k -g 15 -c:a ac3 -b:a 96k -ac 2 -f vob "$p.vob"
  rec "$p.vob" video mpegps 8 "v,mpeg2video,Main,720x480,30000/1001,yuv420p,sar=8:9;a,ac3,,2,48000" "$(movie 'Zephyr Bridge' 1980)"
  p=$(M "Zephyr Bridge Two" 1981); ff -f lavfi -i "testsrc2=s=720x576:r=50:d=8,tinterlace=interleave_top,$(bars 720 576),setsar=16/15" $C -t 8 -c:v mpeg2video -b:v 1500k -g 12 -flags +ilme+ildct -top 1 -c:a mp2 -b:a 96k -ac 2 -f mpegts "$p.ts"
  rec "$p.ts" video mpegts 8 "v,mpeg2video,Main,720x576,25,yuv420p,sar=16:15,field=tt;a,mp2,,2,48000" "$(movie 'Zephyr Bridge Two' 1981)" interlaced
  p=$(M "Zephyr Bridge Three" 1979); ff -f lavfi -i "$(V 352 288 25 6)" $C -t 6 -c:v mpeg1video -b:v 600k -c:a mp2 -ar 44100 -ac 2 -f mpeg "$p.mpg"
  rec "$p.mpg" video mpegps 6 "v,mpeg1video,,352x288,25,yuv420p;a,mp2,,2,44100" "$(movie 'Zephyr Bridge Three' 1979)"
  p=$(M "Anchor Steam" 1982); ff -f lavfi -i "$(V 640 352 25 8)" $C -t 8 -c:v libxvid -q:v 6 -g 100 -bf 0 -c:a libmp3lame -q:a 5 -ac 2 -ar 44100 "$p.avi"
  rec "$p.avi" video avi 8 "v,mpeg4,Simple Profile,640x352,25,yuv420p;a,mp3,,2,44100" "$(movie 'Anchor Steam' 1982)" "xvid,vbr_mp3"
  p=$(M "Anchor Steam Two" 1983); ff -f lavfi -i "$(V 640 352 25 8)" $C -t 8 -c:v mpeg4 -vtag DX50 -q:v 6 -bf 2 -g 100 -c:a libmp3lame -b:a 64k -ac 2 "$p.avi"
  rec "$p.avi" video avi 8 "v,mpeg4,Advanced Simple Profile,640x352,25,yuv420p;a,mp3,,2,48000" "$(movie 'Anchor Steam Two' 1983)" "bframes,no_pts" "AVI stores no PTS although there are B-frames"
  p=$(M "Anchor Steam Three" 1984); ff -f lavfi -i "$(V 320 240 25 6)" $C -t 6 -c:v msmpeg4 -q:v 6 -c:a libmp3lame -b:a 64k -ac 2 "$p.avi"
  rec "$p.avi" video avi 6 "v,msmpeg4v3,,320x240,25,yuv420p;a,mp3,,2,48000" "$(movie 'Anchor Steam Three' 1984)"
  p=$(M "Brass Key" 1983); ff -f lavfi -i "$(V 640 352 25 8)" $C -t 8 -c:v wmv2 -b:v 500k -c:a wmav2 -b:a 64k -ac 2 -ar 44100 "$p.wmv"
  rec "$p.wmv" video asf 8 "v,wmv2,,640x352,25,yuv420p;a,wmav2,,2,44100" "$(movie 'Brass Key' 1983)"
  p=$(M "Brass Key Two" 1984); ff -f lavfi -i "$(V 320 240 25 6)" $C -t 6 -c:v flv1 -q:v 8 -c:a libmp3lame -ar 44100 -ac 2 -b:a 64k "$p.flv"
  rec "$p.flv" video flv 6 "v,flv1,,320x240,25,yuv420p;a,mp3,,2,44100" "$(movie 'Brass Key Two' 1984)"
  p=$(M "Brass Key Three" 1985); ff -f lavfi -i "$(V 320 240 25 6)" $C -t 6 -c:v libtheora -q:v 5 -c:a libvorbis -ac 2 "$p.ogv"
  rec "$p.ogv" video ogg 6 "v,theora,,320x240,25,yuv420p;a,vorbis,,2,48000" "$(movie 'Brass Key Three' 1985)"
  p=$(M "Brass Key Four" 1986); ff -f lavfi -i "$(V 640 360 25 3)" $C -t 3 -c:v prores_ks -profile:v 0 -c:a pcm_s16le -ac 2 -timecode 01:00:00:00 "$p.mov"
  rec "$p.mov" video mov 3 "v,prores,Proxy,640x360,25,yuv422p10le;a,pcm_s16le,,2,48000;d,tmcd" "$(movie 'Brass Key Four' 1986)" "data_stream" "has a time code data track of no known codec"
  p=$(M "Brass Key Five" 1987); ff -f lavfi -i "$(V 320 240 25 4)" $C -t 4 -c:v mjpeg -q:v 8 -pix_fmt yuvj420p -c:a pcm_s16le -ac 1 -ar 22050 "$p.avi"
  rec "$p.avi" video avi 4 "v,mjpeg,,320x240,25,yuvj420p;a,pcm_s16le,,1,22050" "$(movie 'Brass Key Five' 1987)" "" "real MJPEG video, not cover art"; }
s_video_ts() { local p d
  p=$(M "Cold Ferry" 1984); ff -i $TMP/base.mkv -c copy -muxdelay 0 -output_ts_offset 95437.7 -f mpegts "$p.ts"
  rec "$p.ts" video mpegts 12 "v,h264,High,$v360;$AC2" "$(movie 'Cold Ferry' 1984)" "pts_wrap" "33-bit clock wraps about 6 s in"
  p=$(M "Cold Ferry Two" 1985); ff -i $TMP/base.mkv -c copy -muxdelay 0 -output_ts_offset 50000 -f mpegts "$p.ts"
  rec "$p.ts" video mpegts 12 "v,h264,High,$v360;$AC2" "$(movie 'Cold Ferry Two' 1985)" "start_50000"
  p=$(M "Cold Ferry Three" 1986); ff -i $TMP/base.mkv -map 0:v -map 0:a -c:v copy -c:a ac3 -b:a 96k -f mpegts -mpegts_m2ts_mode 1 "$p.m2ts"
  rec "$p.m2ts" video mpegts 12 "v,h264,High,$v360;a,ac3,,2,48000" "$(movie 'Cold Ferry Three' 1986)" "192_byte_packets"
  p=$(M "Cold Ferry Four" 1987); ff -i $TMP/base.mkv -t 6 -c copy -f mpegts $TMP/p1.ts; ff -i $TMP/tiny.mkv -c copy -f mpegts $TMP/p2.ts; cat $TMP/p1.ts $TMP/p2.ts >"$p.ts"
  rec "$p.ts" video mpegts - "v,h264,High,$v360;$AC2" "$(movie 'Cold Ferry Four' 1987)" "discontinuity,resolution_change" "6 s of 640x360, then clock jumps back to 0 and picture becomes 320x180; true length 12 s"
  p=$(M "Cold Ferry Five" 1988); ff -i $TMP/base.mkv -i $TMP/pgs.sup -map 0 -map 1 -c copy -c:s dvbsub -f mpegts "$p.ts"
  rec "$p.ts" video mpegts 12 "v,h264,High,$v360;$AC2;s,dvb_subtitle" "$(movie 'Cold Ferry Five' 1988)" "dvbsub"
  p=$(M "Cold Ferry Six" 1989); head -c 5000 /dev/urandom >$TMP/blob.bin; ff -i $TMP/base.mkv -f data -i $TMP/blob.bin -map 0 -map 1 -c copy -f mpegts "$p.ts"
  rec "$p.ts" video mpegts 12 "v,h264,High,$v360;$AC2;d,bin_data" "$(movie 'Cold Ferry Six' 1989)" "unknown_stream"; }
s_video_timing() { local p
  p=$(M "Edit Trim" 1961); ff -i $TMP/base.mkv -c copy $TMP/et.mp4; ff -ss 3.32 -i $TMP/et.mp4 -c copy "$p.mp4"
  rec "$p.mp4" video mp4 - "v,h264,High,$v360;$AC2" "$(movie 'Edit Trim' 1961)" "edit_list" "picture before 3.32 s is in the file but hidden by the edit list; first shown clock value 3320"
  p=$(M "Late Audio" 1962); ff -i $TMP/base.mkv -itsoffset 1.5 -i $TMP/base.mkv -map 0:v -map 1:a -c copy -t 12 "$p.mkv"
  rec "$p.mkv" video mkv 12 "v,h264,High,$v360;$AC2" "$(movie 'Late Audio' 1962)" "audio_starts_1500ms"
  p=$(M "Late Video" 1963); ff -itsoffset 2 -i $TMP/base.mkv -i $TMP/base.mkv -map 0:v -map 1:a -c copy "$p.mp4"
  rec "$p.mp4" video mp4 14 "v,h264,High,$v360;$AC2" "$(movie 'Late Video' 1963)" "video_starts_2000ms,edit_list"
  p=$(M "Long Audio" 1964); ff -f lavfi -i "$(V 640 360 25 8)" $C -t 13 $X -g 50 $AAC "$p.mp4"
  rec "$p.mp4" video mp4 13 "v,h264,High,$v360;$AC2" "$(movie 'Long Audio' 1964)" "audio_5s_longer"
  p=$(M "No Audio" 1965); ff -i $TMP/base.mkv -an -c copy "$p.mp4"; rec "$p.mp4" video mp4 12 "v,h264,High,$v360" "$(movie 'No Audio' 1965)" no_audio
  p=$(M "Audio Only" 1966); ff -i $TMP/base.mkv -vn -c copy "$p.mp4"; rec "$p.mp4" video mp4 12 "$AC2" "$(movie 'Audio Only' 1966)" no_video
  p=$(M "Two Video" 1967); ff -i $TMP/base.mkv -i $TMP/tiny.mkv -map 0:v -map 1:v -map 0:a -c copy "$p.mkv"
  rec "$p.mkv" video mkv 12 "v,h264,High,$v360;v,h264,High,320x180,25,yuv420p;$AC2" "$(movie 'Two Video' 1967)" two_video
  p=$(M "Cover Video" 1968); ff -i $TMP/base.mkv -i $TMP/cover.jpg -map 1 -map 0 -c copy -disposition:v:0 attached_pic "$p.mp4"
  rec "$p.mp4" video mp4 12 "v,h264,High,$v360;$AC2;p,mjpeg,400x600" "$(movie 'Cover Video' 1968)" cover_art
  p=$(M "Stretch Sync" 1959); mkvmerge -q -o "$p.mkv" --sync 1:0,25/24 $TMP/base.mkv >/dev/null
  rec "$p.mkv" video mkv 12.5 "v,h264,High,$v360;$AC2" "$(movie 'Stretch Sync' 1959)" "linear_audio_stretch" "audio packet times are 25/24 of their nominal spacing"
  p=$(M "High Bitrate" 1969); ff -f lavfi -i "testsrc2=s=1920x1080:r=25:d=4,noise=alls=60:allf=t,$(bars 1920 1080)" $C -t 4 -c:v libx264 -preset ultrafast -b:v 40M -maxrate 40M -bufsize 20M -threads 2 -pix_fmt yuv420p -g 25 $AAC "$p.mp4"
  rec "$p.mp4" video mp4 4 "v,h264,,1920x1080,25,yuv420p;$AC2" "$(movie 'High Bitrate' 1969)" "40mbit"; }
s_video_layout() { local p d i
  d="$OUT/Movies/Ninefold (2015)"; mkdir -p "$d"
  ff -i $TMP/base.mkv -c copy "$d/Ninefold (2015) - 1080p.mkv"; rec "$d/Ninefold (2015) - 1080p.mkv" video mkv 12 "v,h264,High,$v360;$AC2" "$(movie Ninefold 2015)|version=1080p" "" "a name that lies: really 360 lines"
  ff -i $TMP/tiny.mkv -c copy -metadata comment=480 "$d/Ninefold (2015) - 480p.mp4"; rec "$d/Ninefold (2015) - 480p.mp4" video mp4 6 "v,h264,High,320x180,25,yuv420p;$AC2" "$(movie Ninefold 2015)|version=480p"
  ff -i $TMP/base.mkv -t 10 -c copy "$d/Ninefold (2015) {edition-Director's Cut}.mkv"; rec "$d/Ninefold (2015) {edition-Director's Cut}.mkv" video mkv 10 "v,h264,High,$v360;$AC2" "$(movie Ninefold 2015)|edition=Director's Cut"
  d="$OUT/Movies/Split House (1988)"; mkdir -p "$d"
  for i in 1 2; do ff -f lavfi -i "$(V 320 240 25 6)" $C -t 6 -c:v mpeg4 -q:v 8 -c:a libmp3lame -b:a 64k -ac 2 -metadata title=cd$i "$d/Split House (1988)-cd$i.avi"; rec "$d/Split House (1988)-cd$i.avi" video avi 6 "v,mpeg4,Simple Profile,320x240,25,yuv420p;a,mp3,,2,48000" "$(movie 'Split House' 1988)|part=$i|total_duration=12"; done
  d="$OUT/Movies/Depth Test (2013)"; mkdir -p "$d"; ff -i $TMP/tiny.mkv -c copy "$d/Depth Test (2013).3D.HSBS.mkv"; rec "$d/Depth Test (2013).3D.HSBS.mkv" video mkv 6 "v,h264,High,320x180,25,yuv420p;$AC2" "$(movie 'Depth Test' 2013)|stereo=hsbs"
  d="$OUT/Movies/Disc Folder (1999)/VIDEO_TS"; mkdir -p "$d"; for i in 1 2; do ff -f lavfi -i "$(V 352 288 25 4)" $C -t 4 -c:v mpeg2video -b:v 500k -c:a ac3 -b:a 96k -ac 2 -f vob "$d/VTS_01_$i.VOB"; rec "$d/VTS_01_$i.VOB" video mpegps 4 "v,mpeg2video,Main,352x288,25,yuv420p;a,ac3,,2,48000" "$(movie 'Disc Folder' 1999)|disc=dvd"; done
  : >"$d/VIDEO_TS.IFO"; : >"$d/VTS_01_0.IFO"
  d="$OUT/Movies/Blue Folder (2009)/BDMV"; mkdir -p "$d/STREAM" "$d/PLAYLIST"; : >"$d/index.bdmv"; ff -i $TMP/tiny.mkv -c:v copy -c:a ac3 -b:a 96k -f mpegts -mpegts_m2ts_mode 1 "$d/STREAM/00001.m2ts"; rec "$d/STREAM/00001.m2ts" video mpegts 6 "v,h264,High,320x180,25,yuv420p;a,ac3,,2,48000" "$(movie 'Blue Folder' 2009)|disc=bluray"
  ff -i $TMP/tiny.mkv -c copy -metadata comment=loose "$OUT/Movies/Loose Reel (1977).mp4"; rec "$OUT/Movies/Loose Reel (1977).mp4" video mp4 6 "v,h264,High,320x180,25,yuv420p;$AC2" "$(movie 'Loose Reel' 1977)"
  ff -i $TMP/tiny.mkv -c copy -metadata comment=scene "$OUT/Movies/the.loose.scene.1978.1080p.bluray.x264-grp.mkv"; rec "$OUT/Movies/the.loose.scene.1978.1080p.bluray.x264-grp.mkv" video mkv 6 "v,h264,High,320x180,25,yuv420p;$AC2" "type=movie|title=the loose scene|year=1978"; }

# ------------------------------------------------------------------ group: audio
s_audio_codecs() { local n=1970 spec name ext args out p
  while IFS='|' read -r name ext src args out; do [ -n "$name" ] || continue; n=$((n+1)); p=$(M "Soundcheck $name" $n)
    ff -i $TMP/base.mkv -i $TMP/$src -map 0:v -map 1:a -t 8 -c:v copy $args "$p.$ext" || { echo "Soundcheck $name" >>"$FAILED"; continue; }
    rec "$p.$ext" video $ext 8 "v,h264,High,$v360;a,$out" "$(movie "Soundcheck $name" $n)" "" "one pitch per channel: FL300 FR400 FC500 LFE60 BL600 BR700 SL800 SR900"
  done <<'T'
AAC51|mp4|ch5.1.wav|-c:a aac -b:a 192k|aac,LC,6,48000
AAC71|mp4|ch7.1.wav|-c:a aac -b:a 256k|aac,LC,8,48000
AC3|mkv|ch5.1.wav|-c:a ac3 -b:a 256k|ac3,,6,48000
EAC3|mp4|ch5.1.wav|-c:a eac3 -b:a 256k|eac3,,6,48000
DTS|mkv|ch5.1.wav|-c:a dca -strict -2 -b:a 768k|dts,DTS,6,48000
TrueHD|mkv|ch5.1.wav|-c:a truehd -strict -2|truehd,,6,48000
FLAC71|mkv|ch7.1.wav|-c:a flac|flac,,8,48000
Opus51|mkv|ch5.1.wav|-c:a libopus -b:a 160k -mapping_family 1 -af channelmap=channel_layout=5.1|opus,,6,48000
PCM51|mkv|ch5.1.wav|-c:a pcm_s24le|pcm_s24le,,6,48000
MP3|mkv|clock.wav|-c:a libmp3lame -q:a 5 -ac 2|mp3,,2,48000
Vorbis51|mkv|ch5.1.wav|-c:a libvorbis -q:a 2|vorbis,,6,48000
ALAC|mov|clock.wav|-c:a alac -ac 2|alac,,2,48000
FLACinMP4|mp4|clock.wav|-c:a flac -strict -2 -ac 2|flac,,2,48000
OpusInMP4|mp4|clock.wav|-c:a libopus -strict -2 -ac 2|opus,,2,48000
MP2|mkv|clock.wav|-c:a mp2 -ac 2|mp2,,2,48000
Rate96|mkv|clock.wav|-c:a flac -ar 96000 -ac 2 -sample_fmt s32|flac,,2,96000
T
}
s_audio_tracks() { local p
  p=$(M "Dust Choir" 1970); ff -i $TMP/base.mkv -i $TMP/ch5.1.wav -i $TMP/t1000.wav -i $TMP/t1500.wav -map 0:v -map 1 -map 1 -map 1 -map 2 -map 3 -t 10 -c:v copy \
    -c:a:0 truehd -strict -2 -c:a:1 ac3 -b:a:1 192k -c:a:2 dca -b:a:2 768k -c:a:3 aac -b:a:3 64k -c:a:4 aac -b:a:4 48k \
    -metadata:s:a:0 language=eng -metadata:s:a:0 title="TrueHD 5.1" -metadata:s:a:1 language=eng -metadata:s:a:1 title="AC-3 core" -metadata:s:a:2 language=ger -metadata:s:a:3 language=fre -metadata:s:a:4 language=eng -metadata:s:a:4 title="Director's commentary" \
    -disposition:a:0 default -disposition:a:1 0 -disposition:a:2 0 -disposition:a:3 0 -disposition:a:4 comment "$p.mkv"
  rec "$p.mkv" video mkv 10 "v,h264,High,$v360;a,truehd,,6,48000,lang=eng,disp=default;a,ac3,,6,48000,lang=eng;a,dts,DTS,6,48000,lang=ger;a,aac,LC,1,48000,lang=fre;a,aac,LC,1,48000,lang=eng,disp=comment" "$(movie 'Dust Choir' 1970)" "multi_audio"
  p=$(M "Flag Maze" 1958); ff -i $TMP/base.mkv -i $TMP/t1000.wav -i $TMP/t1500.wav -map 0:v -map 1 -map 0:a -map 2 -t 12 -c copy -c:a:0 aac -c:a:2 aac $TMP/fm.mkv
  mkvmerge -q -o "$p.mkv" --language 1:jpn --default-track-flag 1:1 --language 2:eng --default-track-flag 2:1 --language 3:eng --default-track-flag 3:0 --commentary-flag 3:1 $TMP/fm.mkv \
    --language 0:eng --forced-display-flag 0:1 --default-track-flag 0:1 $TMP/en.forced.srt --language 0:eng --default-track-flag 0:0 --track-name 0:Full $TMP/short.srt --language 0:eng --hearing-impaired-flag 0:1 --default-track-flag 0:0 $TMP/en.sdh.srt --language 0:zh-Hant --default-track-flag 0:0 $TMP/zh.srt --language 0:und --default-track-flag 0:0 $TMP/short.srt >/dev/null
  rec "$p.mkv" video mkv 12 "v,h264,High,$v360;a,aac,LC,1,48000,lang=jpn,disp=default;a,aac,LC,2,48000,lang=eng,disp=default;a,aac,LC,1,48000,lang=eng,disp=comment;s,subrip,lang=eng,disp=default+forced;s,subrip,lang=eng;s,subrip,lang=eng,disp=hearing_impaired;s,subrip,lang=chi;s,subrip" "$(movie 'Flag Maze' 1958)" "flags" "two default audio tracks; track 4 subtitle is zh-Hant by BCP 47, last has no language"; }

# ------------------------------------------------------------------ group: subs
s_subs_sidecars() { local p d; p=$(M "Caption Street" 1960) d=$(dirname "$p")
  ff -i $TMP/base.mkv -i $TMP/en.srt -i $TMP/fr.srt -map 0 -map 1 -map 2 -t 12 -c copy -c:s mov_text -metadata:s:s:0 language=eng -metadata:s:s:1 language=fre "$p.mp4"
  rec "$p.mp4" video mp4 12 "v,h264,High,$v360;$AC2;s,mov_text,lang=eng;s,mov_text,lang=fre" "$(movie 'Caption Street' 1960)" mov_text
  sc() { rec "$p.$1" sidecar "${1##*.}" - "s,$2" "of=Caption Street|$3" "${4-}" "${5-}"; }
  cp $TMP/en.srt "$p.en.srt"; sc en.srt subrip "lang=en" utf8
  { printf '\xef\xbb\xbf'; cat $TMP/fr.srt; } >"$p.fr.default.srt"; sc fr.default.srt subrip "lang=fr|default=1" "utf8,bom"
  cp $TMP/en.forced.srt "$p.en.forced.srt"; sc en.forced.srt subrip "lang=en|forced=1"
  cp $TMP/en.sdh.srt "$p.en.sdh.srt"; sc en.sdh.srt subrip "lang=en|hearing_impaired=1"
  cp $TMP/en.srt "$p.hi.srt"; sc hi.srt subrip "lang=hi" "" "hi alone is Hindi"
  cp $TMP/en.sdh.srt "$p.pl.hi.srt"; sc pl.hi.srt subrip "lang=pl|hearing_impaired=1" "" "hi after a language is hearing impaired"
  iconv -f utf-8 -t cp1252 $TMP/es.srt >"$p.es.srt"; sc es.srt subrip "lang=es|encoding=cp1252|text=¿Dónde está el niño?"
  iconv -f utf-8 -t cp932 $TMP/ja.srt >"$p.ja.srt"; sc ja.srt subrip "lang=ja|encoding=cp932|text=時計を見てください"
  iconv -f utf-8 -t cp1251 $TMP/ru.srt >"$p.ru.srt"; sc ru.srt subrip "lang=ru|encoding=cp1251|text=Посмотрите на часы"
  iconv -f utf-8 -t iso-8859-7 $TMP/el.srt >"$p.el.srt"; sc el.srt subrip "lang=el|encoding=iso-8859-7|text=Κοίτα το ρολόι"
  iconv -f utf-8 -t big5 $TMP/zh.srt >"$p.zh-Hant.srt"; sc zh-Hant.srt subrip "lang=zh-Hant|encoding=big5|text=請看時鐘"
  iconv -f utf-8 -t gbk $TMP/zhs.srt >"$p.zh-Hans.srt"; sc zh-Hans.srt subrip "lang=zh-Hans|encoding=gbk|text=请看时钟"
  { printf '\xff\xfe'; iconv -f utf-8 -t utf-16le $TMP/de.srt; } >"$p.de.srt"; sc de.srt subrip "lang=de|encoding=utf-16le|text=Schöne Grüße" bom
  iconv -f utf-8 -t utf-16be $TMP/de.srt >"$p.nl.srt"; sc nl.srt subrip "lang=nl|encoding=utf-16be|text=Schöne Grüße" ffprobe_cannot "no byte order mark"
  cp $TMP/fr.srt "$p.pt-BR.srt"; sc pt-BR.srt subrip "lang=pt-BR"
  cp $TMP/styled.ass "$p.en.Signs & Songs.ass"; sc "en.Signs & Songs.ass" ass "lang=en|title=Signs & Songs"
  cp $TMP/en.vtt "$p.en.vtt"; sc en.vtt webvtt "lang=en"
  cp $TMP/en.smi "$p.ko.smi"; sc ko.smi sami "lang=ko"
  sed 's/$/\r/' $TMP/en.srt >"$p.it.srt"; sc it.srt subrip "lang=it" crlf
  cp $TMP/odd.srt "$p.sv.srt"; sc sv.srt subrip "lang=sv|cues=4" "" "no blank line at the end, dot instead of comma, overlapping cues, HTML tags, missing index"
  mkdir -p "$d/Subs"; cp $TMP/en.srt "$d/Subs/2_English.srt"; rec "$d/Subs/2_English.srt" sidecar srt - "s,subrip" "of=Caption Street|lang=en"
  cp $TMP/en.srt "$d/Caption Street (1960) Unrelated.srt"; rec "$d/Caption Street (1960) Unrelated.srt" sidecar srt - "s,subrip" "of=|note=no dot after the stem: not a sidecar of the film"
  p=$(M "Caption Web" 1962); ff -f lavfi -i "$(V 320 180 25 6)" $C -i $TMP/en.vtt -map 0 -map 1 -map 2 -t 6 -c:v libvpx -deadline realtime -cpu-used 8 -b:v 150k -c:a libopus -ac 2 -c:s webvtt -metadata:s:s:0 language=eng "$p.webm"
  rec "$p.webm" video webm 6 "v,vp8,,320x180,25,yuv420p;a,opus,,2,48000;s,webvtt,lang=eng" "$(movie 'Caption Web' 1962)"; }

# ------------------------------------------------------------------ group: tv
ep() { # ep FILE EXPECT : unique small copy
  mkdir -p "$(dirname "$1")"; local c=mkv; [[ $1 = *.mp4 ]] && c=mp4; [[ $1 = *.ts ]] && c=mpegts
  ff -i $TMP/tiny.mkv -c copy -metadata comment="$1" $([ $c = mpegts ] && echo "-f mpegts -metadata service_name=x$RANDOM") "$1"
  rec "$1" video $c 6 "v,h264,High,320x180,25,yuv420p;$AC2" "type=episode|$2" "" "${3-}"; }
epnfo() { printf '<?xml version="1.0" encoding="UTF-8"?>\n<episodedetails>\n  <title>%s</title>\n  <season>%s</season>\n  <episode>%s</episode>\n  <aired>%s</aired>\n%s</episodedetails>\n' "$2" "$3" "$4" "$5" "${6-}" >"$1"; }
s_tv_all() { local s="$OUT/TV/Harbor Lights (2019)" h="series=Harbor Lights|year=2019" i f
  mkdir -p "$s/Season 01" "$s/Season 02" "$s/Season 00"
  printf '<?xml version="1.0" encoding="UTF-8"?>\n<tvshow>\n  <title>Harbor Lights</title>\n  <year>2019</year>\n  <plot>A made-up series.</plot>\n  <uniqueid type="test" default="true">s-1</uniqueid>\n</tvshow>\n' >"$s/tvshow.nfo"
  poster "$s/poster.jpg" 0x226644 'Harbor Lights'; poster "$s/season01-poster.jpg" 0x336644 'Season 1'; fanart "$s/fanart.jpg" 0x226644
  for i in 1 2; do f="$s/Season 01/Harbor Lights (2019) - S01E0$i - Night $i"; ep "$f.mkv" "$h|season=1|episodes=$i|title=Night $i"; epnfo "$f.nfo" "Night $i" 1 $i 2019-01-0$i; done
  ep "$s/Season 01/Harbor Lights (2019) - S01E03-E04 - Double Night.mkv" "$h|season=1|episodes=3 4|title=Double Night"
  ep "$s/Season 01/Harbor Lights (2019) - S01E05 - Two Cuts - 1080p.mkv" "$h|season=1|episodes=5|version=1080p"
  ep "$s/Season 01/Harbor Lights (2019) - S01E05 - Two Cuts - 480p.mp4" "$h|season=1|episodes=5|version=480p"
  ep "$s/Season 01/Harbor Lights (2019) - S01E06 - 6-10 to Port.mkv" "$h|season=1|episodes=6|title=6-10 to Port" "digits in the title are not a range"
  ep "$s/Season 02/Harbor Lights (2019) - S02E01 - Return.mkv" "$h|season=2|episodes=1|title=Return"
  ep "$s/Season 02/Harbor Lights (2019) - S02E03 - Gap.mkv" "$h|season=2|episodes=3|title=Gap" "episode 2 is missing on purpose"
  f="$s/Season 00/Harbor Lights (2019) - S00E01 - Between"; ep "$f.mkv" "$h|season=0|episodes=1|title=Between|airs_before=2.1"; epnfo "$f.nfo" Between 0 1 2019-06-01 $'  <airsbefore_season>2</airsbefore_season>\n  <airsbefore_episode>1</airsbefore_episode>\n'
  ep "$s/extras/Harbor Lights (2019) - S01E01 - Deleted Scene.mkv" "series=Harbor Lights|extra=extra" "in extras/: must not become a second S01E01"
  ep "$OUT/TV/Northern Desk/Season 2/Northern Desk - 2x05 - The Ledger.mkv" "series=Northern Desk|season=2|episodes=5|title=The Ledger"
  ep "$OUT/TV/Northern Desk/Season 2/Northern Desk - 2x06x07 - Twice.mkv" "series=Northern Desk|season=2|episodes=6 7|title=Twice"
  ep "$OUT/TV/Daily Brief/2021/Daily.Brief.2021.03.14.Budget.Day.720p.mkv" "series=Daily Brief|date=2021-03-14"
  ep "$OUT/TV/Daily Brief/2021/Daily Brief - 2021-03-15 - Rain.ts" "series=Daily Brief|date=2021-03-15"
  for i in 12 13 101; do ep "$OUT/TV/Kumo no Tabi/[Sora] Kumo no Tabi - $(printf %03d $i) (1280x720) [AB12CD3$((i%10))].mkv" "series=Kumo no Tabi|absolute=$i|group=Sora"; done
  ep "$OUT/TV/Long Serial/Season 2009/Long Serial - S2009E02 - Year Season.mkv" "series=Long Serial|season=2009|episodes=2"
  ep "$OUT/TV/the.quiet.desk.s03e07.720p.hdtv.x264-grp/the.quiet.desk.s03e07.720p.hdtv.x264-grp.mkv" "series=the quiet desk|season=3|episodes=7"
  ep "$OUT/TV/1899 Street (2020)/Season 1/1899 Street (2020) - S01E01 - 24 Hours.mkv" "series=1899 Street|year=2020|season=1|episodes=1|title=24 Hours" "digits in series and title"
  ep "$OUT/TV/Größe & Glück/Staffel 1/Größe & Glück S01E01.mkv" "series=Größe & Glück|season=1|episodes=1"; }

# ------------------------------------------------------------------ group: music
track() { # track FILE CONTAINER AUDIOSPEC EXPECT ENCODER_ARGS…
  local f=$1 c=$2 a=$3 e=$4; shift 4; mkdir -p "$(dirname "$f")"; ff $C -t 6 -ac 2 "$@" "$f" && rec "$f" audio $c 6 "$a" "type=track|$e"; }
s_music_all() { local a="$OUT/Music/Tin Orchard/Slow Weather (2012)" i d t
  mkdir -p "$a"; cp $TMP/cover2.jpg "$a/cover.jpg"
  for i in 1 2 3; do d="$a/Disc $(( (i+1)/2 ))"; mkdir -p "$d"; t="Cloud $i"
    ff $C -i $TMP/cover2.jpg -map 0 -map 1 -t 6 -ac 2 -c:a flac -c:v copy -disposition:v attached_pic -metadata title="$t" -metadata artist="Tin Orchard" -metadata album_artist="Tin Orchard" -metadata album="Slow Weather" -metadata date=2012 -metadata track=$(( (i+1)%2+1 )) -metadata disc=$(( (i+1)/2 )) -metadata REPLAYGAIN_TRACK_GAIN="-3.20 dB" "$d/0$(( (i+1)%2+1 )) - $t.flac"
    rec "$d/0$(( (i+1)%2+1 )) - $t.flac" audio flac 6 "a,flac,,2,48000;p,mjpeg,400x600" "type=track|title=$t|artist=Tin Orchard|album=Slow Weather|year=2012|disc=$(( (i+1)/2 ))|track=$(( (i+1)%2+1 ))"; done
  d="$OUT/Music/Marble Fox/Night Ferry (2018)"
  track "$d/01 - Vbr.mp3" mp3 "a,mp3,,2,44100" "title=Vbr|artist=Marble Fox|album=Night Ferry|track=1" -c:a libmp3lame -q:a 2 -ar 44100 -id3v2_version 4 -metadata title=Vbr -metadata artist="Marble Fox" -metadata album="Night Ferry" -metadata track=1/9
  track "$d/02 - No Xing.mp3" mp3 "a,mp3,,2,44100,durtol=9" "title=No Xing|artist=Marble Fox|album=Night Ferry|track=2" -c:a libmp3lame -q:a 2 -ar 44100 -write_xing 0 -metadata title="No Xing" -metadata artist="Marble Fox" -metadata album="Night Ferry" -metadata track=2
  track "$d/03 - Täg Ünïcode.mp3" mp3 "a,mp3,,2,48000" "title=Täg Ünïcode 時計|artist=Marble Fox|album=Night Ferry|track=3" -c:a libmp3lame -b:a 96k -id3v2_version 3 -metadata title="Täg Ünïcode 時計" -metadata artist="Marble Fox" -metadata album="Night Ferry" -metadata track=3
  track "$d/04 - Opus.opus" ogg "a,opus,,2,48000" "title=Opus|artist=Marble Fox|album=Night Ferry|track=4" -c:a libopus -b:a 64k -metadata title=Opus -metadata artist="Marble Fox" -metadata album="Night Ferry" -metadata track=4 -metadata R128_TRACK_GAIN=-512
  track "$d/05 - Vorbis.ogg" ogg "a,vorbis,,2,48000" "title=Vorbis|artist=Marble Fox|album=Night Ferry|track=5" -c:a libvorbis -metadata title=Vorbis -metadata artist="Marble Fox" -metadata album="Night Ferry" -metadata track=5
  track "$d/06 - Aac.m4a" mp4 "a,aac,LC,2,48000" "title=Aac|artist=Marble Fox|album=Night Ferry|track=6" $AAC -metadata title=Aac -metadata artist="Marble Fox" -metadata album="Night Ferry" -metadata track=6
  track "$d/07 - Alac.m4a" mp4 "a,alac,,2,48000" "title=Alac|artist=Marble Fox|album=Night Ferry|track=7" -c:a alac -metadata title=Alac -metadata artist="Marble Fox" -metadata album="Night Ferry" -metadata track=7
  track "$d/08 - Wave.wav" wav "a,pcm_s16le,,2,48000" "title=08 - Wave|untagged=1" -c:a pcm_s16le
  track "$d/09 - Wma.wma" asf "a,wmav2,,2,44100" "title=Wma|artist=Marble Fox|album=Night Ferry|track=9" -c:a wmav2 -b:a 96k -ar 44100 -metadata title=Wma -metadata artist="Marble Fox" -metadata album="Night Ferry" -metadata track=9
  track "$d/10 - Wavpack.wv" wv "a,wavpack,,2,48000" "title=10 - Wavpack" -c:a wavpack
  track "$d/11 - Aiff.aiff" aiff "a,pcm_s16be,,2,48000" "title=11 - Aiff" -c:a pcm_s16be
  track "$OUT/Music/Various Artists/Harbor Mix (2020)/01 - Guest; Host - Meet.mp3" mp3 "a,mp3,,2,48000" "title=Meet|artist=Guest; Host|album_artist=Various Artists|album=Harbor Mix|compilation=1" -c:a libmp3lame -b:a 96k -metadata title=Meet -metadata artist="Guest; Host" -metadata album_artist="Various Artists" -metadata album="Harbor Mix" -metadata compilation=1
  printf '[ti:Vbr]\n[00:00.00]first second\n[00:03.50]half way\n' >"$d/01 - Vbr.lrc"
  printf '#EXTM3U\n#EXTINF:6,Marble Fox - Vbr\n01 - Vbr.mp3\n#EXTINF:6,unicode\n03 - Täg Ünïcode.mp3\n' >"$d/Night Ferry.m3u8"
  d="$OUT/Music/Tin Orchard/One File (2015)"; mkdir -p "$d"; ff $C -t 30 -ac 2 -c:a flac "$d/One File.flac"
  printf 'PERFORMER "Tin Orchard"\nTITLE "One File"\nFILE "One File.flac" WAVE\n  TRACK 01 AUDIO\n    TITLE "First"\n    INDEX 01 00:00:00\n  TRACK 02 AUDIO\n    TITLE "Second"\n    INDEX 01 00:12:37\n' >"$d/One File.cue"
  rec "$d/One File.flac" audio flac 30 "a,flac,,2,48000" "type=album_file|album=One File|cue_tracks=2"
  d="$OUT/Music/Tin Orchard/Gapless (2016)"; mkdir -p "$d"; ff $C -t 6 -c:a flac -metadata title=A -metadata track=1 "$d/01 - A.flac"; ff $C -ss 6 -t 6 -c:a flac -metadata title=B -metadata track=2 "$d/02 - B.flac"
  rec "$d/01 - A.flac" audio flac 6 "a,flac,,1,48000" "type=track|title=A|track=1|gapless_with=02 - B.flac"; rec "$d/02 - B.flac" audio flac 6 "a,flac,,1,48000" "type=track|title=B|track=2"
  d="$OUT/Music/Audiobooks/Made Up Author/Long Listen"; mkdir -p "$d"; ff $C -i $TMP/chapters.ffmeta -map 0 -map_metadata 1 -map_chapters 1 -t 60 -c:a aac -b:a 32k "$d/Long Listen.m4b"
  rec "$d/Long Listen.m4b" audio mp4 60 "a,aac,LC,1,48000;d,bin_data" "type=audiobook|title=Long Listen|chapters=5"; }

# ------------------------------------------------------------------ group: photos
s_photos_all() { local d="$OUT/Photos/2021 Trip" o; mkdir -p "$d"
  ff -f lavfi -i "testsrc2=s=800x600:d=1,drawtext=fontfile=$FONT:text=UP:fontsize=120:x=(w-tw)/2:y=30:fontcolor=white" -frames:v 1 -q:v 5 $TMP/up.jpg
  for o in 1 3 6 8; do $PY exif $TMP/up.jpg "$d/orient-$o.jpg" $o "2021:07:0$o 10:00:00"; rec "$d/orient-$o.jpg" photo jpeg - "i,mjpeg,800x600" "type=photo|orientation=$o|taken=2021-07-0${o}T10:00:00"; done
  ff -i $TMP/up.jpg "$d/plain.png"; rec "$d/plain.png" photo png - "i,png,800x600" "type=photo"
  ff -i $TMP/up.jpg -c:v libwebp "$d/plain.webp"; rec "$d/plain.webp" photo webp - "i,webp,800x600" "type=photo"
  ff -f lavfi -i testsrc2=s=160x120:r=5:d=2 "$d/moving.gif"; rec "$d/moving.gif" photo gif 2 "i,gif,160x120" "type=photo|animated=1"
  ff -f lavfi -i testsrc2=s=6000x4000:d=1 -frames:v 1 -q:v 10 "$d/large.jpg"; rec "$d/large.jpg" photo jpeg - "i,mjpeg,6000x4000" "type=photo"
  turned 90 "$d/VID_20210703_093000.mov" -metadata creation_time=2021-07-03T09:30:00Z; rec "$d/VID_20210703_093000.mov" video mov 6 "v,h264,High,$v360,rot=90;$AC2" "type=home_video|taken=2021-07-03T09:30:00Z" "rotated"
  head -c 9000 $TMP/up.jpg >"$d/cut.jpg"; rec "$d/cut.jpg" broken jpeg - "" "readable=partial"; }

# ------------------------------------------------------------------ groups: names broken seek
s_names_all() { ff -i $TMP/tiny.mkv -c copy -t 3 $TMP/n.mp4; ff -i $TMP/tiny.mkv -c copy -t 3 $TMP/n.mkv; $PY names "$OUT" $TMP/n.mp4 $TMP/n.mkv "$REC.names"; }
s_broken_all() { ff -i $TMP/base.mkv -c copy -movflags +faststart $TMP/fs.mp4; ff -i $TMP/base.mkv -c copy $TMP/me.mp4; ff -i $TMP/base.mkv -c copy -f mpegts $TMP/b.ts; ff $C -t 6 -c:a libmp3lame -b:a 64k $TMP/b.mp3
  $PY broken "$OUT" $TMP "$REC.broken"; }
s_seek_2h() { local p; p=$(M "Two Hours" 2000)
  # key frames at uneven places, 5 pictures a second, flat background: small
  ff -f lavfi -i "$(V 320 180 5 7200 color=c=0x204060)" -c:v libx264 -preset ultrafast -crf 36 -threads 2 -pix_fmt yuv420p -g 100000 -sc_threshold 0 -force_key_frames "expr:if(isnan(prev_forced_t),1,gte(t,prev_forced_t+4+mod(n_forced*7,13)))" $TMP/2h.v.mkv &
  local pid=$!; ff -stream_loop -1 -i $TMP/clock.wav -t 7200 -ac 1 -ar 16000 -c:a aac -b:a 12k $TMP/2h.a.mp4; wait $pid
  $PY longsubs 7200 $TMP/2h
  mkvmerge -q -o "$p.mkv" $TMP/2h.v.mkv $TMP/2h.a.mp4 --language 0:eng $TMP/2h.srt --chapters $TMP/2h.chapters.txt >/dev/null
  rec "$p.mkv" video mkv 7200 "v,h264,,320x180,5,yuv420p;a,aac,LC,1,16000;s,subrip,lang=eng" "$(movie 'Two Hours' 2000)|chapters=24" "cues,irregular_keyframes" "key frame gaps run through 4…16 s; subtitle cue every 10 s says its own start time"
  local q; q=$(M "Two Hours Mp4" 2001); ff -i "$p.mkv" -map 0:v -map 0:a -c copy "$q.mp4"
  rec "$q.mp4" video mp4 7200 "v,h264,,320x180,5,yuv420p;a,aac,LC,1,16000;d,bin_data" "$(movie 'Two Hours Mp4' 2001)" "moov_at_end,irregular_keyframes"
  q=$(M "Two Hours Ts" 2002); ff -i "$p.mkv" -map 0:v -map 0:a -c copy -f mpegts "$q.ts"
  rec "$q.ts" video mpegts 7200 "v,h264,,320x180,5,yuv420p;a,aac,LC,1,16000" "$(movie 'Two Hours Ts' 2002)" "no_index" "no index of any kind: seeking needs bisection"; }

# ------------------------------------------------------------------ run
all=$(declare -F | awk '{print $3}' | grep '^s_' )
if [ $LIST = 1 ]; then echo "$all"; exit 0; fi
start=$SECONDS
want() { [ -z "$GROUPS_WANTED" ] || [[ $GROUPS_WANTED = *,$1,* ]]; }
[ -n "$GROUPS_WANTED" ] || for d in Movies TV Music Photos Names Broken; do rm -rf "${OUT:?}/$d"; done
prepare || { echo "preparing failed" >&2; exit 4; }
# heavy ones first, then the rest, JOBS at a time
order=$( { echo "$all" | grep -E 'seek_2h|video_hdr|video_hevc|video_mkv_full|video_rates|video_timing'; echo "$all" | grep -vE 'seek_2h|video_hdr|video_hevc|video_mkv_full|video_rates|video_timing'; } )
run1() { local t0=$SECONDS e; e=$($1 2>&1 >/dev/null); [ -z "$e" ] || { echo "[$1] $e" >>"$TMP/log"; grep -qiE 'error|invalid|failed|no such' <<<"$e" && echo "$1" >>"$FAILED"; }; echo "$((SECONDS-t0)) $1" >>"$TMP/times"; }
running=0
for f in $order; do g=${f#s_}; g=${g%%_*}; want $g || continue
  while [ $running -ge $JOBS ]; do wait -n; running=$((running-1)); done
  run1 $f & running=$((running+1)); done
wait
$PY manifest "$OUT" "$REC" "$REC.names" "$REC.broken" || exit 5
[ -f "$TMP/log" ] && cat "$TMP/log" >&2
[ $KEEP = 1 ] && sort -rn "$TMP/times" >&2
echo "made $(grep -c . "$REC") + extra records in $((SECONDS-start)) s, $(du -sm --exclude='.tmp*' "$OUT" | cut -f1) MB in $OUT"
if [ -s "$FAILED" ]; then echo "with errors in: $(sort -u "$FAILED" | tr '\n' ' ')" >&2; exit 6; fi
