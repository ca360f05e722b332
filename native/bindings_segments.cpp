// The two loops over a prompt's segments: thousands of small steps that Python takes a millisecond for, every turn.
// prompt/assembly.py says what they do, and does the same in Python.
#include <string>

#include "bindings.h"

namespace whitedwarf {
namespace {

using namespace nb::literals;

void check(int status) {
    if (status < 0) throw nb::python_error();
}

// A dictionary's value, borrowed; KeyError without one.
PyObject* found_in(const nb::dict& dictionary, nb::handle key) {
    PyObject* value = PyDict_GetItemWithError(dictionary.ptr(), key.ptr());
    if (!value && !PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, key.ptr());
    if (!value) throw nb::python_error();
    return value;
}

// Takes what was collected of a stretch and adds it to the parts, cut where it is long.
void finish_stretch(nb::list& texts, nb::list& parts, Py_ssize_t longest, const nb::object& cut) {
    const size_t count = nb::len(texts);
    if (count == 0) return;
    nb::object text = texts[0];
    if (count > 1) text = nb::steal(PyUnicode_Join(nb::str("").ptr(), texts.ptr()));
    if (!text.is_valid()) throw nb::python_error();
    const Py_ssize_t length = PyUnicode_GetLength(text.ptr());
    check(int(length < 0 ? -1 : 0));
    if (length > longest)
        for (nb::handle piece : nb::list(cut(text))) parts.append(piece);
    else if (length > 0)
        parts.append(text);
    check(PyList_SetSlice(texts.ptr(), 0, Py_ssize_t(count), nullptr));
}

nb::list parts(nb::iterable segments, nb::handle text_type, nb::dict special_ids, Py_ssize_t longest, nb::object cut) {
    const nb::str text_name("text"), token_name("token");
    nb::list result, texts;
    for (nb::handle segment : segments) {
        if (reinterpret_cast<PyObject*>(Py_TYPE(segment.ptr())) == text_type.ptr()) {
            texts.append(nb::getattr(segment, text_name));
            continue;
        }
        finish_stretch(texts, result, longest, cut);
        const nb::object token = nb::getattr(segment, token_name);
        result.append(nb::handle(found_in(special_ids, token)));
    }
    finish_stretch(texts, result, longest, cut);
    return result;
}

// The ids that a part stands for: a list in `known`, or for a number none.
PyObject* ids_of(nb::handle part, const nb::dict& known) {
    if (PyLong_Check(part.ptr())) return nullptr;
    PyObject* ids = found_in(known, part);
    if (!PyList_Check(ids)) throw nb::type_error("known must hold lists");
    return ids;
}

nb::list joined(nb::list parts, nb::dict known) {
    std::vector<PyObject*> lists;
    Py_ssize_t total = 0;
    for (nb::handle part : parts) {
        lists.push_back(ids_of(part, known));
        total += lists.back() ? PyList_Size(lists.back()) : 1;
    }
    nb::list result = nb::steal<nb::list>(PyList_New(total));
    if (!result.is_valid()) throw nb::python_error();
    Py_ssize_t place = 0;
    const auto put = [&](PyObject* number) {
        Py_INCREF(number);
        PyList_SET_ITEM(result.ptr(), place++, number);
    };
    for (size_t i = 0; i < lists.size(); ++i) {
        if (!lists[i]) put(nb::object(parts[i]).ptr());
        else
            for (Py_ssize_t k = 0, size = PyList_Size(lists[i]); k < size; ++k) put(PyList_GET_ITEM(lists[i], k));
    }
    return result;
}

}  // namespace

void bind_segments(nb::module_& module) {
    module.def("segment_parts", parts, "segments"_a, "text_type"_a, "special_ids"_a, "longest"_a, "cut"_a,
               "Stretches of text, cut where longer than `longest`, and the ids of control tokens; KeyError for others.");
    module.def("joined_ids", joined, "parts"_a, "known"_a, "Numbers as they are, texts as their ids in `known`.");
}

}  // namespace whitedwarf
