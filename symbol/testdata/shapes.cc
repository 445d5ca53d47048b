// Templates, inlined library code, lambdas, virtual functions, constructors,
// overloads and an anonymous namespace.
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace geometry {

struct Shape {
  virtual ~Shape() = default;
  virtual double area() const = 0;
  double scaled(int factor) const { return area() * factor; }
  double scaled(double factor) const { return area() * factor; }
};

template <typename T> class Rectangle : public Shape {
public:
  Rectangle(T w, T h) : width(w), height(h) {}
  double area() const override { return static_cast<double>(width) * static_cast<double>(height); }

private:
  T width, height;
};

class Polygon : public Shape {
public:
  explicit Polygon(std::vector<std::pair<double, double>> p) : points(std::move(p)) {}
  double area() const override;

private:
  std::vector<std::pair<double, double>> points;
};

double Polygon::area() const {
  double sum = 0;
  for (size_t i = 0; i < points.size(); i++) {
    const auto &a = points[i], &b = points[(i + 1) % points.size()];
    sum += a.first * b.second - b.first * a.second;
  }
  return sum / 2;
}

} // namespace geometry

namespace {

template <typename F> double fold(const std::vector<std::unique_ptr<geometry::Shape>> &shapes, F f) {
  return std::accumulate(shapes.begin(), shapes.end(), 0.0,
                         [&f](double sum, const auto &shape) { return sum + f(*shape); });
}

std::map<std::string, double> histogram(const std::vector<std::unique_ptr<geometry::Shape>> &shapes) {
  std::map<std::string, double> buckets;
  for (const auto &shape : shapes)
    buckets[shape->area() > 10 ? "large" : "small"] += shape->scaled(2);
  return buckets;
}

struct Counter {
  std::string operator()(int n) const {
    struct Local {
      static std::string digits(int v) { return std::to_string(v); }
    };
    return Local::digits(n) + "!";
  }
};

} // namespace

int main(int argc, char **) {
  std::vector<std::unique_ptr<geometry::Shape>> shapes;
  for (int i = 1; i < 20 * argc; i++) {
    shapes.push_back(std::make_unique<geometry::Rectangle<int>>(i, i + 1));
    shapes.push_back(std::make_unique<geometry::Rectangle<float>>(i * 0.5f, 2.0f));
    shapes.push_back(std::make_unique<geometry::Polygon>(
        std::vector<std::pair<double, double>>{{0, 0}, {i * 1.0, 0}, {0, i * 1.0}}));
  }
  std::sort(shapes.begin(), shapes.end(), [](const auto &a, const auto &b) { return a->area() < b->area(); });
  std::function<std::string(int)> label = Counter();
  std::cout << fold(shapes, [](const geometry::Shape &s) { return s.scaled(1.5); }) << label(argc) << '\n';
  try {
    if (shapes.size() > 1000)
      throw std::runtime_error("too many shapes");
    for (const auto &[name, value] : histogram(shapes))
      std::cout << name << ' ' << value << '\n';
  } catch (const std::exception &e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
