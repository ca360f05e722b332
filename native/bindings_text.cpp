// BytePairs for Python: takes str, gives lists of int, and works without the GIL.
#include <memory>
#include <string>
#include <vector>

#include "bindings.h"
#include "byte_pairs.h"

namespace whitedwarf {
namespace {

using namespace nb::literals;

// A BytePairs, and the int object of every id that it can give: a long prompt needs no new ones.
struct PyBytePairs {
    std::unique_ptr<BytePairs> pairs;
    std::vector<nb::object> numbers;
};

uint32_t id_of(const nb::dict& ids, nb::handle token) {
    PyObject* found = PyDict_GetItemWithError(ids.ptr(), token.ptr());
    if (!found) {
        if (PyErr_Occurred()) throw nb::python_error();
        throw std::invalid_argument(std::string("no text token ") + nb::repr(token).c_str());
    }
    return nb::cast<uint32_t>(nb::handle(found));
}

Merge merge_of(const nb::dict& ids, nb::handle pair) {
    const nb::object left = pair[0], right = pair[1];
    return {id_of(ids, left), id_of(ids, right), id_of(ids, left + right)};
}

void make_byte_pairs(PyBytePairs* self, nb::dict ids, nb::list alphabet, nb::sequence merges) {
    if (nb::len(alphabet) != 256)
        throw std::invalid_argument("alphabet names a token for each byte, 256 in all; got " +
                                    std::to_string(nb::len(alphabet)));
    ByteIds bytes{};
    for (size_t byte = 0; byte < 256; ++byte) bytes[byte] = id_of(ids, alphabet[byte]);
    std::vector<Merge> all;
    all.reserve(nb::len(merges));
    for (nb::handle pair : merges) all.push_back(merge_of(ids, pair));
    std::vector<nb::object> numbers;
    for (auto [token, number] : ids) {
        const size_t id = nb::cast<uint32_t>(number);
        if (id >= numbers.size()) numbers.resize(id + 1);
        numbers[id] = nb::borrow(number);
    }
    new (self) PyBytePairs{std::make_unique<BytePairs>(bytes, all), std::move(numbers)};
}

std::string_view utf8(nb::handle text) {
    Py_ssize_t size = 0;
    const char* data = PyUnicode_Check(text.ptr()) ? PyUnicode_AsUTF8AndSize(text.ptr(), &size) : nullptr;
    if (!data && PyErr_Occurred()) throw nb::python_error();
    if (!data) throw nb::type_error("texts must be str");
    return {data, size_t(size)};
}

nb::list numbers(const PyBytePairs& self, const uint32_t* ids, size_t count) {
    nb::list list = nb::steal<nb::list>(PyList_New(Py_ssize_t(count)));
    if (!list.is_valid()) throw nb::python_error();
    for (size_t i = 0; i < count; ++i) {
        nb::object number = self.numbers[ids[i]];
        PyList_SetItem(list.ptr(), Py_ssize_t(i), number.release().ptr());
    }
    return list;
}

nb::list encode(PyBytePairs& self, nb::list texts) {
    // A list of our own: nobody can take a text away while it is read without the GIL.
    const nb::list kept = nb::steal<nb::list>(PyList_GetSlice(texts.ptr(), 0, PY_SSIZE_T_MAX));
    std::vector<std::string_view> views;
    for (nb::handle text : kept) views.push_back(utf8(text));
    std::vector<uint32_t> ids;
    std::vector<size_t> ends;
    without_gil([&] { self.pairs->encode(views, ids, ends); });
    nb::list result;
    size_t start = 0;
    for (size_t end : ends) {
        result.append(numbers(self, ids.data() + start, end - start));
        start = end;
    }
    return result;
}

}  // namespace

void bind_text(nb::module_& module) {
    nb::class_<PyBytePairs>(module, "BytePairs", "Plain text to the ids of a byte-level BPE vocabulary.")
        .def("__init__", make_byte_pairs, "ids"_a, "alphabet"_a, "merges"_a,
             "Ids by token, the token of each byte, and the pairs to merge, best first.")
        .def("encode", encode, "texts"_a, "A list of ids for each text; lone surrogates are refused.");
}

}  // namespace whitedwarf
