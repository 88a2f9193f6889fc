package bottest

import (
	"bytes"
	"fmt"
	"image"
	_ "image/gif"  // dimensions of photos
	_ "image/jpeg" // dimensions of photos
	_ "image/png"  // dimensions of photos
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
)

// Limits of photos: bytes, width plus height in pixels, and their ratio.
const (
	photoLimit = 10 << 20
	photoSides = 10_000
	photoRatio = 20
)

// File is a file that somebody sent.
type File struct {
	ID   string // file_id
	Path string // file_path
	Name string
	MIME string
	Size int64 // what Telegram says; more than len(Data) plays a big file
	Data []byte
}

// addFile gives a file its id and path.
func (s *Server) addFile(kind string, f File) *File {
	s.fileSeq++
	f.ID = fmt.Sprintf("BQACAgIAAxkBAAI%06d", s.fileSeq)
	f.Size = max(f.Size, int64(len(f.Data)))
	ext := path.Ext(f.Name)
	if f.MIME == "" {
		if f.MIME = mime.TypeByExtension(ext); f.MIME == "" {
			f.MIME = http.DetectContentType(f.Data)
		}
	}
	if kind == "photo" {
		ext = ".jpg"
	}
	f.Path = fmt.Sprintf("%ss/file_%d%s", kind, s.fileSeq, ext)
	s.files[f.ID] = &f
	return &f
}

// fileJSON is the file as an object of a media type: its required fields, and
// what else the type has room for.
func (s *Server) fileJSON(f *File, typ string) map[string]any {
	out, _ := s.spec.minimal(typ).(map[string]any)
	for name, v := range map[string]any{"file_id": f.ID, "file_unique_id": "U" + f.ID, "file_size": f.Size, "file_name": f.Name, "mime_type": f.MIME, "file_path": f.Path} {
		if s.spec.Types[typ].field(name) != nil && v != "" {
			out[name] = v
		}
	}
	return out
}

// mediaType is the type of a message's field: "video_note" is a VideoNote.
func mediaType(kind string) string {
	if kind == "photo" {
		return "PhotoSize"
	}
	var typ strings.Builder
	for word := range strings.SplitSeq(kind, "_") {
		typ.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return typ.String()
}

// sendMedia is sendPhoto, sendDocument and their like: the method's name says
// the parameter and the kind.
func sendMedia(s *Server, req *request) (any, error) {
	kind := snake(strings.TrimPrefix(req.call.Method, "send"))
	rt, err := req.caption()
	if err != nil {
		return nil, err
	}
	c, m, err := s.target(req)
	if err != nil {
		return nil, err
	}
	m.Text, m.Entities = rt.text, rt.entities
	if err := s.attach(req, kind, req.args[kind], &m); err != nil {
		return nil, err
	}
	return s.post(req, c, m)
}

// attach gives the message its file: an upload, "attach://field", a file_id,
// or a URL, which this server never fetches.
func (s *Server) attach(req *request, kind string, v any, m *Message) error {
	up, isUpload := v.(*Upload)
	if ref, ok := v.(string); ok {
		if field, ok := strings.CutPrefix(ref, "attach://"); ok {
			if up = req.files[field]; up == nil {
				return badRequest("file %q isn't attached", field)
			}
			isUpload = true
		} else if strings.HasPrefix(ref, "http://") || strings.HasPrefix(ref, "https://") {
			return badRequest("failed to get HTTP URL content")
		} else if m.File = s.files[ref]; m.File == nil {
			return badRequest("wrong file identifier/HTTP URL specified")
		}
	}
	var width, height int
	if isUpload {
		if len(up.Data) == 0 {
			return badRequest("file must be non-empty")
		}
		if int64(len(up.Data)) > s.cfg.UploadLimit {
			return &apiError{Code: 413, Description: "Request Entity Too Large"}
		}
		if kind == "photo" {
			var err error
			if width, height, err = checkPhoto(up); err != nil {
				return err
			}
		}
		m.File = s.addFile(kind, File{Name: up.Name, Data: up.Data})
	}
	m.Kind, m.media = kind, s.fileJSON(m.File, mediaType(kind))
	if width > 0 {
		m.media["width"], m.media["height"] = width, height
	}
	for field := range m.media {
		if p := req.entry.field(field); p != nil && req.has(field) {
			m.media[field] = req.args[field] // duration, width …
		}
	}
	return nil
}

func checkPhoto(up *Upload) (width, height int, err error) {
	if len(up.Data) > photoLimit {
		return 0, 0, badRequest("file \"%s\" of size %d bytes is too big for a photo", up.Name, len(up.Data))
	}
	if http.DetectContentType(up.Data) == "image/webp" {
		return 0, 0, nil // the standard library cannot measure it
	}
	cfg, _, err := image.DecodeConfig(bytes.NewReader(up.Data))
	if err != nil {
		return 0, 0, badRequest("IMAGE_PROCESS_FAILED")
	}
	long, short := max(cfg.Width, cfg.Height), min(cfg.Width, cfg.Height)
	if cfg.Width+cfg.Height > photoSides || long > photoRatio*short {
		return 0, 0, badRequest("PHOTO_INVALID_DIMENSIONS")
	}
	return cfg.Width, cfg.Height, nil
}

// inputMedia reads an InputMedia object into the message.
func (s *Server) inputMedia(req *request, media args, m *Message) error {
	rt, err := media.caption()
	if err != nil {
		return err
	}
	m.Text, m.Entities = rt.text, rt.entities
	return s.attach(req, media.str("type"), media["media"], m)
}

func sendMediaGroup(s *Server, req *request) (any, error) {
	c, first, err := s.target(req)
	if err != nil {
		return nil, err
	}
	items := req.list("media")
	if len(items) < 2 || len(items) > 10 {
		return nil, badRequest("there must be from 2 to 10 media in an album")
	}
	var album []Message
	for _, v := range items {
		m := first
		m.Group = strconv.Itoa(13_000_000 + req.call.Seq)
		if err := s.inputMedia(req, v.(map[string]any), &m); err != nil {
			return nil, err
		}
		album = append(album, m)
	}
	out := []any{}
	for _, m := range album {
		sent, _ := s.post(req, c, m)
		out = append(out, sent)
	}
	return out, nil
}

// sendObject is sendLocation, sendPoll and their like: parameters that the
// media type also has go into it.
func sendObject(s *Server, req *request) (any, error) {
	c, m, err := s.target(req)
	if err != nil {
		return nil, err
	}
	m.Kind = snake(strings.TrimPrefix(req.call.Method, "send"))
	typ := strings.TrimPrefix(req.call.Method, "send")
	if typ == "PaidMedia" {
		typ = "PaidMediaInfo"
	}
	m.media, _ = s.spec.minimal(typ).(map[string]any)
	for _, f := range s.spec.Types[typ].Fields {
		if p := req.entry.field(f.Name); p != nil && p.Types == f.Types && req.has(f.Name) {
			m.media[f.Name] = req.args[f.Name]
		}
	}
	switch m.Kind {
	case "dice":
		m.media["value"], m.media["emoji"] = 4, orDefault(req.str("emoji"), "🎲")
	case "venue":
		m.media["location"] = map[string]any{"latitude": req.args["latitude"], "longitude": req.args["longitude"]}
	case "poll":
		var options []any
		for i, o := range req.list("options") {
			options = append(options, map[string]any{"persistent_id": strconv.Itoa(i), "text": args(o.(map[string]any)).str("text"), "voter_count": 0})
		}
		m.media["id"], m.media["options"], m.media["type"] = strconv.Itoa(req.call.Seq), options, orDefault(req.str("type"), "regular")
	}
	return s.post(req, c, m)
}

func orDefault(s, d string) string {
	if s == "" {
		return d
	}
	return s
}

// snake turns "VideoNote" into "video_note".
func snake(s string) string {
	var b strings.Builder
	for i, r := range s {
		if 'A' <= r && r <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

func getFile(s *Server, req *request) (any, error) {
	f := s.files[req.str("file_id")]
	if f == nil {
		return nil, badRequest("wrong file_id or the file is temporarily unavailable")
	}
	if f.Size > DownloadLimit {
		return nil, badRequest("file is too big")
	}
	return s.fileJSON(f, "File"), nil
}

// serveFile answers /file/bot<token>/PATH.
func (s *Server) serveFile(w http.ResponseWriter, r *http.Request, name string) {
	s.mu.Lock()
	var found *File
	for _, f := range s.files {
		if f.Path == name {
			found = f
		}
	}
	s.mu.Unlock()
	if found == nil {
		writeAnswer(w, answer{status: 404, err: &apiError{Code: 404, Description: "Not Found"}})
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(len(found.Data)))
	_, _ = w.Write(found.Data) // the client may be gone
}
