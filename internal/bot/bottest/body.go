package bottest

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
)

// Upload is a file that came in a multipart request.
type Upload struct {
	Field string // form field
	Name  string // file name as sent
	Data  []byte
}

var (
	errTooLarge = errors.New("request body is too large")
	errCut      = errors.New("client went away in the middle of the body")
)

// watched notes an error of the connection, which is no fault of the request.
type watched struct {
	io.ReadCloser
	err error
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		w.err = err
	}
	return n, err
}

// decodeBody reads the parameters of a request from its query and its body,
// which may be JSON, urlencoded or multipart. Values of forms and queries are
// formValue, files are *Upload, JSON values are what decodeJSON gives.
// A body of more than limit bytes is errTooLarge, an incomplete one errCut.
func decodeBody(r *http.Request, limit int64) (map[string]any, error) {
	params := map[string]any{}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("can't parse query: %w", err)
	}
	addForm(params, query)
	err = errTooLarge
	body := &watched{ReadCloser: r.Body}
	if r.ContentLength <= limit {
		err = decodeParams(params, http.MaxBytesReader(nil, body, limit), r.Header.Get("Content-Type"))
	}
	if body.err != nil {
		return nil, errCut
	}
	if limit := (*http.MaxBytesError)(nil); errors.As(err, &limit) || errors.Is(err, errTooLarge) {
		_, _ = io.CopyN(io.Discard, r.Body, 1<<30) // or the client may see a reset instead of the answer
		return nil, errTooLarge
	}
	return params, err
}

func decodeParams(params map[string]any, body io.Reader, contentType string) error {
	kind, attrs, err := mime.ParseMediaType(contentType)
	if err != nil && contentType != "" {
		return fmt.Errorf("can't parse content type: %w", err)
	}
	if kind == "multipart/form-data" {
		return decodeMultipart(params, body, attrs["boundary"])
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return fmt.Errorf("can't read the body: %w", err)
	}
	switch {
	case len(data) == 0:
		return nil
	case kind == "application/json":
		return decodeObject(params, data)
	case kind == "application/x-www-form-urlencoded":
		form, err := url.ParseQuery(string(data))
		if err != nil {
			return fmt.Errorf("can't parse form: %w", err)
		}
		addForm(params, form)
		return nil
	}
	return fmt.Errorf("unsupported content type %q", kind)
}

func decodeObject(params map[string]any, data []byte) error {
	v, err := decodeJSON(data)
	if err != nil {
		return fmt.Errorf("can't parse JSON: %w", err)
	}
	obj, ok := v.(map[string]any)
	if !ok {
		return errors.New("can't parse JSON: an object is expected")
	}
	for name, x := range obj {
		params[name] = x
	}
	return nil
}

func decodeMultipart(params map[string]any, body io.Reader, boundary string) error {
	if boundary == "" {
		return errors.New("boundary of multipart/form-data is missing")
	}
	mr := multipart.NewReader(body, boundary)
	for {
		part, err := mr.NextPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("can't parse multipart: %w", err)
		}
		data, err := io.ReadAll(part)
		if err != nil {
			return fmt.Errorf("can't read part %q: %w", part.FormName(), err)
		}
		switch {
		case part.FormName() == "":
			return errors.New("a part has no name")
		case part.FileName() != "":
			params[part.FormName()] = &Upload{Field: part.FormName(), Name: part.FileName(), Data: data}
		default:
			params[part.FormName()] = formValue(data)
		}
	}
}

func addForm(params map[string]any, form url.Values) {
	for name, values := range form {
		params[name] = formValue(values[len(values)-1])
	}
}
